// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./Money.sol";
import "./Shares.sol";

/// Settles matches of orders and tells of them by the events of either era. It checks neither signatures nor
/// prices: what an order says is what is filled. It is for tests.
contract Exchange {
    // The first era: which asset was given and taken, 0 for money; a buyer's fee is in shares.
    event OrderFilled(
        bytes32 indexed orderHash,
        address indexed maker,
        address indexed taker,
        uint256 makerAssetId,
        uint256 takerAssetId,
        uint256 makerAmountFilled,
        uint256 takerAmountFilled,
        uint256 fee
    );

    // The second era: the side and the asset; every fee is in money, and apart.
    event OrderFilled(
        bytes32 indexed orderHash,
        address indexed maker,
        address indexed taker,
        uint8 side,
        uint256 tokenId,
        uint256 makerAmountFilled,
        uint256 takerAmountFilled,
        uint256 fee,
        bytes32 builder,
        bytes32 metadata
    );

    uint8 private constant BUY = 0;

    struct Order {
        bytes32 hash;
        address maker;
        uint8 side;
        uint256 asset;
        uint256 shares;
        uint256 money;
        uint256 fee;
    }

    /// The taker's order comes last. `split` and `merged` are the outcomes that a match of two purchases makes
    /// and a match of two sales takes back, as many as `complete`.
    struct Match {
        Order[] orders;
        uint256[] split;
        uint256[] merged;
        uint256 complete;
    }

    Money private immutable money;
    Shares private immutable shares;
    bool private immutable second;
    address private immutable fees;

    constructor(Money money_, Shares shares_, bool second_, address fees_) {
        (money, shares, second, fees) = (money_, shares_, second_, fees_);
        money_.approve(address(shares_), type(uint256).max);
    }

    /// Settle matches that need not have anything to do with each other, all in one transaction.
    function settle(Match[] calldata matches) external {
        for (uint256 i = 0; i < matches.length; i++) _settle(matches[i]);
    }

    function _settle(Match calldata one) private {
        uint256 last = one.orders.length - 1;
        for (uint256 i = 0; i <= last; i++) _take(one.orders[i]);
        if (one.split.length > 0) shares.split(money, one.split, one.complete);
        if (one.merged.length > 0) shares.merge(money, one.merged, one.complete);
        for (uint256 i = 0; i <= last; i++) {
            _give(one.orders[i]);
            _tell(one.orders[i], i == last ? address(this) : one.orders[last].maker);
        }
    }

    function _take(Order calldata order) private {
        if (order.side == BUY) money.transferFrom(order.maker, address(this), order.money);
        else shares.safeTransferFrom(order.maker, address(this), order.asset, order.shares, "");
    }

    function _give(Order calldata order) private {
        bool buys = order.side == BUY;
        if (order.fee > 0 && second) money.transferFrom(order.maker, fees, order.fee);
        uint256 kept = second ? 0 : order.fee;
        if (buys) shares.safeTransferFrom(address(this), order.maker, order.asset, order.shares - kept, "");
        else money.transfer(order.maker, order.money - kept);
        if (kept == 0) return;
        if (buys) shares.safeTransferFrom(address(this), fees, order.asset, kept, "");
        else money.transfer(fees, kept);
    }

    function _tell(Order calldata order, address taker) private {
        bool buys = order.side == BUY;
        (uint256 gave, uint256 got) = buys ? (order.money, order.shares) : (order.shares, order.money);
        if (second) {
            emit OrderFilled(
                order.hash, order.maker, taker, order.side, order.asset, gave, got, order.fee, 0, 0
            );
        } else {
            (uint256 given, uint256 taken) = buys ? (uint256(0), order.asset) : (order.asset, uint256(0));
            emit OrderFilled(order.hash, order.maker, taker, given, taken, gave, got, order.fee);
        }
    }
}
