// Compiles the contracts of this folder into contracts.json: `npm install solc@0.8.37` somewhere, then
// `NODE_PATH=somewhere/node_modules node compile.js`. Tests do not need it: what it wrote is committed.
const fs = require("node:fs");
const path = require("node:path");
const solc = require("solc");

const names = ["Money", "Shares", "Exchange"];
const read = (file) => ({ content: fs.readFileSync(path.join(__dirname, file), "utf8") });
const input = {
  language: "Solidity",
  sources: Object.fromEntries(names.map((name) => [`${name}.sol`, read(`${name}.sol`)])),
  settings: {
    evmVersion: "paris",
    metadata: { bytecodeHash: "none" },
    optimizer: { enabled: true, runs: 200 },
    viaIR: true,
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
  },
};
const told = JSON.parse(solc.compile(JSON.stringify(input)));
for (const one of told.errors ?? []) console.error(one.formattedMessage);
if (!told.contracts || (told.errors ?? []).some((one) => one.severity === "error")) process.exit(1);
const made = names.map((name) => {
  const { abi, evm } = told.contracts[`${name}.sol`][name];
  return [name, { abi, bytecode: `0x${evm.bytecode.object}` }];
});
fs.writeFileSync(path.join(__dirname, "contracts.json"), JSON.stringify(Object.fromEntries(made), null, 1) + "\n");
