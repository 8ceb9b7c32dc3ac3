import { PassThrough } from "node:stream";
import { AdminServiceDefinition } from "@diskmesh/api/common";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { runCommandLine } from "@diskmesh/cli";
import { Board, Fleet } from "@diskmesh/director/testing";
import { createClient } from "@diskmesh/rpc";
import { systemClock } from "@diskmesh/service";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { openStore, type Store } from "./kill-test/stores.js";
import { ServiceGroup } from "./mesh/service-group.js";

const PATIENCE = { timeoutMs: 60_000 };
const NAMES = ["disk-registry-1", "disk-registry-2"] as const;
/** Long enough to be asked meanwhile, whatever else runs. */
const LEASE = { timeMs: 20_000, safeTimeMs: 4_000, renewIntervalMs: 500 };

describe("why, while no registry leads", function () {
  this.timeout(300_000);
  let group: ServiceGroup;
  let store: Store;
  /** What a director has of the registry on its page. */
  const board = new Board();
  const looking = new AbortController();

  before(async function () {
    leaveToVerify(this);
    const found = await openStore("mongodb", { host: "127.0.0.1", launcher: [] });
    if (typeof found === "string") skipBecause(this, found);
    store = found;
    group = await ServiceGroup.prepare({ names: NAMES, hostIds: [] });
    const config = { tablet: { ...store.tablet?.("disk-registry"), lease: LEASE } };
    for (const name of NAMES) await group.start([{ name, service: "disk-registry", config, waitFor: "listening" }]);
    const options = {
      address: NAMES.map((name) => group.address(name)),
      tls: group.certificates.files("director"),
      serverRole: "disk-registry",
      defaultDeadlineMs: 10_000,
    } as const;
    const registry = createClient(DiskRegistryServiceDefinition, options);
    const admin = createClient(AdminServiceDefinition, options);
    for (const client of [registry, admin]) group.closeLater(client);
    new Fleet("disk-registry", { registry, admin }, board, systemClock, looking.signal).start();
  });
  after(async () => {
    looking.abort();
    await group?.[Symbol.asyncDispose]();
    await store?.database?.kill();
  });

  /** Its exit code, then what it says. */
  async function why(kind: string, name: string): Promise<string> {
    const { caFile, certFile, keyFile } = group.operatorFiles;
    const addresses = NAMES.map((each) => group.address(each)).join(",");
    const files = { DISKMESH_CA: caFile, DISKMESH_CERT: certFile, DISKMESH_KEY: keyFile };
    const environment = { DISKMESH_DIRECTOR: addresses, DISKMESH_REGISTRY: addresses, ...files };
    const [out, err] = [new PassThrough(), new PassThrough()];
    const surroundings = { out, err, environment, workingFolder: group.folder, signal: AbortSignal.timeout(60_000) };
    const code = await runCommandLine(["why", kind, name], surroundings);
    return `${code} ${String(out.read() ?? "")}${String(err.read() ?? "")}`;
  }
  const says = (kind: string, name: string, expected: RegExp) =>
    eventually(async () => expect(await why(kind, name)).to.match(expected), PATIENCE);
  const shows = (expected: RegExp) =>
    eventually(() => expect(board.textOf(["source disk-registry"])).to.match(expected), PATIENCE);
  const isLive = () => shows(/^\[\["source","disk-registry",\{"state":"live"\}\]\]$/);
  const leader = () =>
    eventually(async () => {
      const told = await why("service", "disk-registry");
      const standby = NAMES.find((name) =>
        told.includes(`${group.address(name)}: the disk-registry that was asked stands by`),
      );
      if (standby === undefined) throw new Error(told);
      return NAMES.find((name) => name !== standby) as string;
    }, PATIENCE);

  it("the leader is dead -> who stands by, whose the lease is, and until when; it is started again", async () => {
    const name = await leader();
    const address = group.address(name);
    await isLive();
    await group.process(name).kill();
    const stands = `stands by: the lease is that of the one at ${address}, and it takes over when`;
    await says(
      "pool",
      "default",
      new RegExp(
        `^3 pool default cannot be asked about now: none of the processes .*: .*${stands}[\\s\\S]*STANDS_BY \\(since 20.*, next at 20[\\s\\S]*NO_ANSWER[\\s\\S]*${address}: the disk-registry there does not answer`,
      ),
    );
    await shows(
      new RegExp(`"state":"silent","trouble":"shown is what it said last; the .*${stands}.*","sinceMs":\\d+`),
    );
    await group.process(name).start();
    await says("service", "disk-registry", /^0 disk-registry is served/);
    await isLive();
  });

  it("the database is dead -> that, since when, and of whom it is told; it is told of nobody when it is back", async () => {
    await leader();
    store.database?.signal("SIGSTOP");
    await says(
      "pool",
      "default",
      /^3 pool default cannot be asked about now: .*lacks its database: it has not answered for \d+ ms.*, since 20[\s\S]*DATABASE_AWAY[\s\S]*start the database that `tablet.storage` of its config names/,
    );
    await shows(
      /"state":"silent","trouble":"shown is .*lacks its database: it has not .*: start the database.*","sinceMs":\d+/,
    );
    store.database?.signal("SIGCONT");
    await says("service", "disk-registry", /^0 disk-registry is served/);
    await isLive();
  });
});
