"""One websocket connection, on the virtual network."""

import anyio
from websockets.asyncio.client import ClientConnection

from onefold.runtime.websocket import Opening
from onefold.sources.websocket.live import Live, Watch
from onefold.testing.runtime import VirtualRuntime
from onefold.testing.virtual import VirtualLoop
from onefold.worlds.stream import Events, Stream


class Remembering(VirtualRuntime):
    """A runtime that remembers the websockets that it opened."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop)
        self.opened: list[ClientConnection] = []

    async def websocket(self, opening: Opening) -> ClientConnection:
        self.opened.append(await super().websocket(opening))
        return self.opened[-1]


def test_who_is_cancelled_while_it_closes_leaves_no_connection_behind():
    loop = VirtualLoop(1)
    runtime = Remembering(loop)

    async def main() -> None:
        async with Stream(Events()) as stream, runtime.running():
            live = await Live.connect(stream.url, {}, Watch(5.0, 20.0, 10.0, None, 100, 2**20, waits=False))
            with anyio.CancelScope() as scope:
                scope.cancel()
                await live.close()
            assert scope.cancelled_caught
            assert [one.transport.is_closing() for one in runtime.opened] == [True]

    loop.run(main())
