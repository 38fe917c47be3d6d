// Serves the embedded MongoDB engine on loopback: node mongodb.js MODULES FOLDER PORT
const net = require('node:net');
const path = require('node:path');

const [modules, folder, port] = process.argv.slice(2);
const { open } = require(path.join(modules, '@0q', 'embedded-mongodb'));

async function serve() {
  const engine = await open(folder);
  const listener = net.createServer((client) => {
    const server = net.connect(engine.socketPath);
    client.setNoDelay(true);
    client.pipe(server).pipe(client);
    client.on('error', () => server.destroy());
    server.on('error', () => client.destroy());
    client.on('close', () => server.destroy());
    server.on('close', () => client.destroy());
  });
  listener.listen(Number(port), '127.0.0.1');
  process.on('SIGTERM', async () => {
    listener.close();
    await engine.close();
    process.exit(0);
  });
}

serve().catch((error) => {
  console.error(error);
  process.exit(1);
});
