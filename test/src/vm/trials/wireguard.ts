import { realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  beginBlockFlood,
  DEVICE_BYTES,
  innerAddressOf,
  interfaceOf,
  noise,
  type WireGuard,
} from "@diskmesh/disk-agent/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { DISK, expectCut, HOLDER, nqns, portOf, STORAGE, specHere, TwoHosts } from "./between-hosts.js";
import { Devices } from "./device-mapper.js";
import { countersIn, makeWireGuard, Network, NOBODY, startWireGuard, UDP_PORT } from "./networks.js";
import { count } from "./tally.js";

const DEPTH = 16;
const ROUNDS = 5;
/** Time in which a late write would come. */
const LATE_MS = 300;
const PORT = portOf(STORAGE);
const INNER = innerAddressOf(STORAGE);
const HOLDER_IF = interfaceOf(HOLDER);
const STORAGE_IF = interfaceOf(STORAGE);

/** Two hosts whose networks differ, and which reach each other over a link. */
interface Scene {
  readonly hosts: TwoHosts;
  readonly network: Network;
  readonly holder: WireGuard;
  readonly storage: WireGuard;
}

async function startScene(devices: Devices): Promise<Scene> {
  const network = await Network.make(devices);
  await Network.here.link(network, ["wg-trial-0", "wg-trial-1"], ["10.77.0.1/24", "10.77.0.2/24"]);
  const holder = await startWireGuard(devices, HOLDER, Network.here, "10.77.0.1");
  const storage = await startWireGuard(devices, STORAGE, network, "10.77.0.2");
  const hosts = await TwoHosts.start(devices, {
    holder: { wireguard: holder },
    storage: { wireguard: storage, verbs: network.verbs },
  });
  return { hosts, network, holder, storage };
}

const peersIn = async (network: Network, name: string): Promise<readonly string[]> =>
  (await network.run("wg", "show", name, "peers")).split("\n").filter((key) => key !== "");

describe("WireGuard between the hosts of a disk", () => {
  it("carries all bytes, and its peers are hosts of present sessions", async () => {
    await using devices = new Devices();
    const { hosts, network, holder, storage } = await startScene(devices);
    await network.run(
      "nft",
      `table inet trial { chain input { type filter hook input priority -300; iifname "wg-trial-1" udp dport ${UDP_PORT} counter; iifname "wg-trial-1" meta l4proto 6 counter; }; }`,
    );
    const path = await hosts.publish(1, ["a", "d"], ["b"]);
    expect(realpathSync(path)).to.match(/^\/dev\/dm-/);
    expect(await peersIn(Network.here, HOLDER_IF)).to.deep.equal([storage.side.publicKey]);
    expect(await peersIn(network, STORAGE_IF)).to.deep.equal([holder.side.publicKey]);
    const client = await hosts.use(path);
    const data = noise(3 * DEVICE_BYTES);
    await client.write(0, data, { fua: true });
    expect((await client.read(0, data.length)).equals(data)).to.equal(true);
    expect((await hosts.bytesOf("a")).equals(data.subarray(0, DEVICE_BYTES))).to.equal(true);
    expect((await hosts.bytesOf("d")).equals(data.subarray(DEVICE_BYTES, 2 * DEVICE_BYTES))).to.equal(true);
    const [encrypted, plain] = await countersIn(network, "trial");
    expect(encrypted?.bytes).to.be.above(2 * DEVICE_BYTES);
    expect(plain).to.deep.equal({ packets: 0, bytes: 0 });
    // Peers without a session go, others stay.
    for (const scene of [hosts.holder, hosts.storage]) await scene.tidyWireGuard();
    expect(await peersIn(network, STORAGE_IF)).to.deep.equal([holder.side.publicKey]);
    expect((await client.read(0, data.length)).equals(data)).to.equal(true);
    await client.disconnect();
    await hosts.holder.exports.drain(DISK, 1, () => {});
    await hosts.holder.exports.end(DISK, 1);
    await hosts.storage.open("disk-2", 2, ["a", "d"]);
    await eventually(async () => {
      for (const scene of [hosts.holder, hosts.storage]) await scene.tidyWireGuard();
      expect(await peersIn(Network.here, HOLDER_IF)).to.deep.equal([]);
      expect(await peersIn(network, STORAGE_IF)).to.deep.equal([]);
    });
    // An agent with another storage network drops what its former lives have left.
    await makeWireGuard(STORAGE, network, "", { isUsed: false }).tidy(async () => []);
    expect(await network.run("ip", "-brief", "link")).to.not.contain(STORAGE_IF);
    expect(await network.run("nft", "list", "tables")).to.not.contain(STORAGE_IF);
  });

  it("leads only processes of root on hosts of sessions to the port", async () => {
    await using devices = new Devices();
    const { hosts, network } = await startScene(devices);
    const stranger = await Network.make(devices);
    const [storageSide, strangerSide] = ["fd00:77::2", "fd00:77::3"];
    await network.link(stranger, ["wg-trial-2", "wg-trial-3"], [`${storageSide}/64`, `${strangerSide}/64`]);
    await hosts.publish(1, ["a"], ["b"]);
    // Beside WireGuard, as a neighbour that knows the address.
    await stranger.run("ip", "-6", "route", "add", `${INNER}/128`, "via", storageSide);
    expect(await stranger.connect(storageSide, PORT)).to.equal("ECONNREFUSED");
    expect(await stranger.connect(INNER, PORT)).to.equal("no answer");
    // Unprivileged processes on both hosts, and root.
    for (const host of [Network.here, network]) {
      expect(await host.connect(INNER, PORT)).to.equal("connected");
      expect(await host.connect(INNER, PORT, NOBODY)).to.equal("no answer");
    }
    // Peers reach no other port: the one that refuses connections does not answer.
    expect(await Network.here.connect(INNER, PORT + 100)).to.equal("no answer");
    // The rules are what keeps them off, and come back.
    await network.run("nft", "delete", "table", "ip6", STORAGE_IF);
    expect(await stranger.connect(INNER, PORT)).to.equal("connected");
    expect(await Network.here.connect(INNER, PORT + 100)).to.equal("ECONNREFUSED");
    await hosts.storage.tidyWireGuard();
    expect(await stranger.connect(INNER, PORT)).to.equal("no answer");
    await Network.here.run("nft", "delete", "table", "ip6", HOLDER_IF);
    expect(await Network.here.connect(INNER, PORT, NOBODY)).to.equal("connected");
    await hosts.holder.tidyWireGuard();
    expect(await Network.here.connect(INNER, PORT, NOBODY)).to.equal("no answer");
  });

  it("does not let in a host whose key is not of a session", async () => {
    await using devices = new Devices();
    const { hosts, network, storage } = await startScene(devices);
    const stranger = await Network.make(devices);
    await network.link(stranger, ["wg-trial-2", "wg-trial-3"], ["10.78.0.2/24", "10.78.0.3/24"]);
    const other = await startWireGuard(devices, "host-3" as typeof HOLDER, stranger, "10.78.0.3");
    await hosts.publish(1, ["a"], ["b"]);
    const side = { ...storage.side, endpoint: `10.78.0.2:${UDP_PORT}`, isNew: true };
    const attempt = () => other.reach(STORAGE, side, () => stranger.connect(INNER, PORT));
    expect(await attempt()).to.equal("no answer");
    // With the key as a peer it is let in.
    await storage.admit("host-3" as typeof HOLDER, other.side.publicKey);
    expect(await attempt()).to.equal("connected");
    await hosts.storage.tidyWireGuard();
    expect(await attempt()).to.equal("no answer");
  });

  it("is fenced in mid-write, and not a byte comes after the grant", async () => {
    await using devices = new Devices();
    const { hosts } = await startScene(devices);
    const { holder, storage } = hosts;
    for (let round = 0; round < ROUNDS; round++) {
      const session = 2 * round + 1;
      const flood = await beginBlockFlood(await hosts.publish(session, ["a", "d"], ["b"]), DEPTH);
      await eventually(() => flood.writes() > DEPTH);
      await storage.open(DISK, session + 1, ["a", "d"]);
      const granted = [await hosts.bytesOf("a"), await hosts.bytesOf("d")];
      for (const scene of [holder, storage]) await scene.tidyWireGuard();
      await flood.ended;
      expectCut(flood.errors);
      await sleep(LATE_MS);
      expect([await hosts.bytesOf("a"), await hosts.bytesOf("d")]).to.deep.equal(granted);
      await holder.exports.end(DISK, session);
      count("fences over WireGuard");
    }
    await eventually(() => expect(nqns()).to.deep.equal({ served: [], connected: [] }));
  });

  it("is cut in mid-write, and the disk has the bytes of the next host alone", async () => {
    await using devices = new Devices();
    const { hosts, network } = await startScene(devices);
    const { holder, storage } = hosts;
    const link = (state: "up" | "down") => network.run("ip", "link", "set", "wg-trial-1", state);
    for (let round = 0; round < ROUNDS; round++) {
      const session = 2 * round + 1;
      const flood = await beginBlockFlood(await hosts.publish(session, ["a", "d"]), DEPTH);
      await eventually(() => flood.writes() > DEPTH);
      await link("down");
      await storage.open(DISK, session + 1, ["a", "d"]);
      // Before the holder's I/O ends by its limit, so that the writes that it repeats reach the devices' host.
      await link("up");
      const path = await storage.exports.serve(specHere(STORAGE, session + 1, ["a", "d"]));
      const client = await storage.use(path);
      const data = noise(2 * DEVICE_BYTES);
      await client.write(0, data, { fua: true });
      await flood.ended;
      expectCut(flood.errors);
      await sleep(LATE_MS);
      expect((await client.read(0, data.length)).equals(data)).to.equal(true);
      expect(Buffer.concat([await hosts.bytesOf("a"), await hosts.bytesOf("d")]).equals(data)).to.equal(true);
      await client.disconnect();
      await storage.exports.end(DISK, session + 1);
      await holder.exports.end(DISK, session);
      count("cuts of the holder in mid-write, over WireGuard, with the disk republished on the other host");
    }
    await eventually(() => expect(nqns()).to.deep.equal({ served: [], connected: [] }));
  });

  it("goes on while the agents of both hosts restart, and drops peers of sessions that ended meanwhile", async () => {
    await using devices = new Devices();
    const { hosts, network } = await startScene(devices);
    const folders = { [HOLDER]: temporaryFolder(), [STORAGE]: temporaryFolder() };
    const networks = { [HOLDER]: Network.here, [STORAGE]: network };
    const names = { [HOLDER]: HOLDER_IF, [STORAGE]: STORAGE_IF };
    const addresses = { [HOLDER]: "10.77.0.1", [STORAGE]: "10.77.0.2" };
    const begin = (hostId: typeof HOLDER) =>
      startWireGuard(devices, hostId, networks[hostId] as Network, addresses[hostId] ?? "", {
        folder: folders[hostId] as string,
      });
    const restart = async (hostId: typeof HOLDER) => {
      const wireguard = await begin(hostId);
      await hosts.restart(hostId, { wireguard, verbs: (networks[hostId] as Network).verbs });
      return wireguard;
    };
    for (const hostId of [STORAGE, HOLDER]) await restart(hostId);
    expect(statSync(join(folders[HOLDER] ?? "", "wireguard.key")).mode & 0o777).to.equal(0o600);
    const flood = await beginBlockFlood(await hosts.publish(1, ["a", "d"], ["b"]), DEPTH);
    const stray = `${"a".repeat(42)}A=`;
    for (const hostId of [STORAGE, HOLDER, STORAGE, HOLDER]) {
      const on = networks[hostId] as Network;
      const before = await peersIn(on, names[hostId] ?? "");
      expect(before).to.have.length(1);
      await on.run("wg", "set", names[hostId] ?? "", "peer", stray, "allowed-ips", "fd64:6973:6b6d::1/128");
      await restart(hostId);
      await (hostId === HOLDER ? hosts.holder : hosts.storage).tidyWireGuard();
      expect(await peersIn(on, names[hostId] ?? "")).to.deep.equal(before);
      const writes = flood.writes();
      await eventually(() => flood.writes() > writes + DEPTH);
    }
    expect(flood.errors.size).to.equal(0);
    await hosts.storage.open("disk-2", 2, ["a", "d"]);
    await flood.ended;
    await hosts.holder.exports.end(DISK, 1);
  });

  it("is not used, and node carries the disk, where only one of the hosts has it", async () => {
    for (const side of [HOLDER, STORAGE]) {
      await using devices = new Devices();
      const wireguard = await startWireGuard(devices, side, Network.here, "127.0.0.1");
      const hosts = await TwoHosts.start(devices, { [side === HOLDER ? "holder" : "storage"]: { wireguard } });
      const client = await hosts.holder.connect(await hosts.publish(1, ["a"], ["b"]));
      const data = noise(2 * DEVICE_BYTES);
      await client.write(0, data, { fua: true });
      expect((await hosts.bytesOf("a")).equals(data.subarray(0, DEVICE_BYTES))).to.equal(true);
      expect(nqns()).to.deep.equal({ served: [], connected: [] });
      await client.disconnect();
    }
  });
});
