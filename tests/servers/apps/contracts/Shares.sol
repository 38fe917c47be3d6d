// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./Money.sol";

/// Shares of outcomes, as little of ERC-1155 as trades need, with split and merge of the outcomes of a market.
/// Whoever splits pays one dollar for a share of each outcome; whoever merges gets it back.
contract Shares {
    event TransferSingle(
        address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value
    );
    event TransferBatch(
        address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values
    );
    event ApprovalForAll(address indexed owner, address indexed operator, bool approved);

    mapping(address => mapping(uint256 => uint256)) public balanceOf;
    mapping(address => mapping(address => bool)) public isApprovedForAll;

    function setApprovalForAll(address operator, bool approved) external {
        isApprovedForAll[msg.sender][operator] = approved;
        emit ApprovalForAll(msg.sender, operator, approved);
    }

    function safeTransferFrom(address from, address to, uint256 id, uint256 value, bytes calldata) external {
        require(from == msg.sender || isApprovedForAll[from][msg.sender], "not approved");
        balanceOf[from][id] -= value;
        balanceOf[to][id] += value;
        emit TransferSingle(msg.sender, from, to, id, value);
    }

    function split(Money money, uint256[] calldata ids, uint256 value) external {
        money.transferFrom(msg.sender, address(this), value);
        for (uint256 i = 0; i < ids.length; i++) balanceOf[msg.sender][ids[i]] += value;
        emit TransferBatch(msg.sender, address(0), msg.sender, ids, _each(ids.length, value));
    }

    function merge(Money money, uint256[] calldata ids, uint256 value) external {
        for (uint256 i = 0; i < ids.length; i++) balanceOf[msg.sender][ids[i]] -= value;
        emit TransferBatch(msg.sender, msg.sender, address(0), ids, _each(ids.length, value));
        money.transfer(msg.sender, value);
    }

    function _each(uint256 number, uint256 value) private pure returns (uint256[] memory values) {
        values = new uint256[](number);
        for (uint256 i = 0; i < number; i++) values[i] = value;
    }
}
