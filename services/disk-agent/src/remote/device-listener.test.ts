import { randomBytes } from "node:crypto";
import { type AddressInfo, createConnection, createServer, type Socket } from "node:net";
import { silentLogger, UnavailableError } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import { DeviceListener } from "./device-listener.js";

const KEY = randomBytes(32);
const unused = () => Promise.reject(new Error("nobody does I/O"));

describe("the listener for holders on other hosts", () => {
  let listener: DeviceListener;

  const start = async (port = 0): Promise<void> => {
    const part = { read: unused, write: unused, clear: unused, flush: async () => {}, close() {} };
    listener = await DeviceListener.start({
      access: {
        keyOf: () => KEY,
        open: async (name) => ({ served: { name, sizeBytes: 4096, blockSizeBytes: 4096 }, part, leave() {} }),
        answer: async () => ({}),
      },
      host: "127.0.0.1",
      port,
      limits: { maxInFlightRequests: 8, maxInFlightBytes: 4096, negotiationTimeoutMs: 600_000 },
      clock: systemClock,
      log: silentLogger,
    });
  };

  const connect = () =>
    NbdClient.connectOverTls(
      { host: "127.0.0.1", port: listener.port, identity: "dev-a/1", key: KEY },
      { signal: new AbortController().signal, silenceTimeoutMs: 60_000 },
    );

  afterEach(() => listener.close());

  it("waits for its port while another process has it, and says so", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    await start(port);
    expect(() => listener.requireListening()).to.throw(
      UnavailableError,
      `127.0.0.1:${port}, where other hosts reach this host's devices: another process has the port`,
    );
    await new Promise((resolve) => other.close(resolve));
    await eventually(() => listener.requireListening());
    expect(listener.port).to.equal(port);
    (await connect()).destroy();
  });

  it("closes the oldest of too many connections without a key, and serves one with the key", async () => {
    await start();
    const holder = await connect();
    const closed: number[] = [];
    const idle: Socket[] = [];
    for (let index = 0; index < 300; index += 1) {
      const socket = createConnection(listener.port, "127.0.0.1").on("error", () => {});
      idle.push(socket.on("close", () => closed.push(index)).resume());
      await new Promise((resolve) => socket.once("connect", resolve));
    }
    await eventually(() => expect(closed).to.have.lengthOf.at.least(300 - 256));
    (await connect()).destroy();
    await holder.flush();
    expect(Math.max(...closed), "none of the latest").to.be.below(100);
    for (const socket of idle) socket.destroy();
    holder.destroy();
  });
});
