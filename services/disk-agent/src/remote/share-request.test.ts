import { randomBytes } from "node:crypto";
import { type DeviceId, silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { systemClock } from "@diskmesh/service";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import { DeviceFixture } from "../testing/device-fixture.js";
import { DeviceAccess } from "./device-access.js";
import { DeviceListener } from "./device-listener.js";
import { formatSessionIdentity } from "./session-identity.js";
import { askForShare, formatShareRequest, parseShareRequest, type ShareVerb } from "./share-request.js";

const SIZE_BYTES = 65_536;
const BOOT_ID = "boot-1";

describe("a holder that asks for NVMe/TCP", () => {
  let fixture: DeviceFixture;
  let listener: DeviceListener;
  const key = randomBytes(32);

  beforeEach(async () => {
    fixture = await DeviceFixture.withAttached("a", SIZE_BYTES);
    await fixture.openSession("a", 1, "host-2", key.toString("hex"));
    const { devices, ledger } = fixture;
    const access = new DeviceAccess({ devices, ledger, machineBootId: BOOT_ID, takeOverTimeoutMs: 1_000 });
    listener = await DeviceListener.start({
      access,
      host: "127.0.0.1",
      port: 0,
      limits: { maxInFlightRequests: 8, maxInFlightBytes: SIZE_BYTES, negotiationTimeoutMs: 60_000 },
      clock: systemClock,
      log: silentLogger,
    });
  });

  afterEach(async () => {
    await listener.close();
    await fixture.stop();
  });

  const session = formatSessionIdentity({ deviceId: "a" as DeviceId, sessionNumber: 1 });
  const ask = (verb: ShareVerb, identity = session, proof = key) =>
    askForShare({
      host: "127.0.0.1",
      port: listener.port,
      identity: formatShareRequest({ verb, identity }),
      key: proof,
    });

  it("is told why the host does not serve it", async () => {
    for (const verb of ["offer", "share"] as const)
      expect((await ask(verb)).whyNot).to.equal("the device's host has another engine than kernel");
  });

  it("must prove the key of the session", async () => {
    await rejection(ask("offer", session, randomBytes(32)), Error);
    await rejection(ask("offer", "a/2"), Error);
    expect((await ask("offer", "b/1")).whyNot).to.match(/serves nothing by NVMe\/TCP, or refuses the session$/);
  });

  it("has a request of the same form with and without a key of WireGuard", () => {
    const publicKey = `${"a".repeat(42)}A=`;
    for (const request of [{ publicKey }, {}].map((each) => ({
      verb: "share" as const,
      identity: "a/65536/1",
      ...each,
    })))
      expect(parseShareRequest(formatShareRequest(request))).to.deep.equal({ publicKey: undefined, ...request });
    expect(parseShareRequest("share@key:a/1")).to.equal(undefined);
    expect(parseShareRequest("a/1")).to.equal(undefined);
  });

  it("is not taken for a connection, which goes on", async () => {
    const target = { host: "127.0.0.1", port: listener.port, identity: session, key };
    const limits = { signal: new AbortController().signal, silenceTimeoutMs: 60_000 };
    const client = await NbdClient.connectOverTls(target, limits);
    await ask("offer");
    await client.write(0, Buffer.alloc(4096, 1));
    client.destroy();
  });
});
