import { setTimeout as delay } from "node:timers/promises";
import { AdminServiceDefinition } from "@diskmesh/api/common";
import { DiskRegistryServiceDefinition, Health } from "@diskmesh/api/registry";
import { Fleet, httpUsers, OpenPage, RowCache } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import type { SourceRow } from "@diskmesh/page/rows";
import { createClient } from "@diskmesh/rpc";
import { systemClock } from "@diskmesh/service";
import { eventually, freePort, leaveToVerify, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { ADMIN } from "./mesh/fleets.js";
import { HTTPS, metricsAt, type ProcessPlan } from "./mesh/plan.js";
import { openStore, type Store } from "./mesh/stores.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { typeCommand } from "./mesh/type-command.js";
import { type AlertTarget, AlertWatch } from "./metrics/alert-watch.js";
import { FAULT_ALERTS } from "./metrics/fault-alerts.js";

const NAMES = ["disk-registry-1", "disk-registry-2"] as const;
/**
 * Duration in ms for which the database is stopped: longer than a commit may take, and shorter than a leader can live
 * without it.
 */
const STANDS_STILL_MS = 1_500;
/** Lease time in ms, long enough for the test's calls meanwhile. */
const LEASE_TIME_MS = 20_000;

describe("why, while no registry leads", () => {
  let mesh: TestMesh;
  let store: Store;
  const targets: AlertTarget[] = [];
  /** The director's copy of the registry for its page. */
  const rowCache = new RowCache();
  let fleet: Fleet;
  const looking = new AbortController();
  const tabletOf = (service: string) => ({ ...store.tablet?.(service), leaseTimeMs: LEASE_TIME_MS });

  before(async function () {
    leaveToVerify(this);
    skipWithout(this, "promtool");
    const found = await openStore("mongodb", { host: "127.0.0.1", launcher: [] });
    if (typeof found === "string") skipBecause(this, found);
    store = found;
    const ports: number[] = [];
    for (const _ of NAMES) ports.push(await freePort());
    for (const port of ports) targets.push({ job: "diskmesh-disk-registry", port });
    mesh = await TestMesh.start({
      processes: [
        ...NAMES.map(
          (name, index): ProcessPlan => ({
            service: "disk-registry",
            name,
            config: { tablet: tabletOf("disk-registry"), ...metricsAt(ports[index]) },
            waitFor: "listening",
          }),
        ),
        { service: "disk-agent", name: "host-1", devices: { count: 1, sizeBytes: MIB_BYTES } },
      ],
      listeners: ["director", HTTPS],
      nats: true,
    });
    const options = {
      address: NAMES.map((name) => mesh.address(name)),
      tls: mesh.certificates.files("director"),
      serverRole: "disk-registry",
      defaultDeadlineMs: 10_000,
    } as const;
    const registry = createClient(DiskRegistryServiceDefinition, options);
    const admin = createClient(AdminServiceDefinition, options);
    for (const client of [registry, admin]) mesh.closeLater(client);
    fleet = new Fleet("disk-registry", { registry, admin }, rowCache, systemClock);
  });
  after(async () => {
    looking.abort();
    await mesh?.[Symbol.asyncDispose]();
    await store?.database?.kill();
  });

  /** Returns the exit code and the output of `diskmesh why`. */
  async function why(kind: string, name: string): Promise<string> {
    const environment = { ...mesh.commandEnvironment, DISKMESH_DIRECTOR: mesh.addresses("disk-registry").join(",") };
    const { code, out, err } = await typeCommand(["why", kind, name], environment, mesh.folder);
    return `${code} ${out}${err}`;
  }
  const says = (kind: string, name: string, expected: RegExp) =>
    eventually(async () => expect(await why(kind, name)).to.match(expected));
  const isServed = () =>
    eventually(async () => expect(await why("service", "disk-registry")).to.match(/^0 disk-registry is served/));
  const shows = (expected: RegExp) =>
    eventually(async () => {
      await fleet.read(looking.signal);
      const row = [...rowCache.rows()].find(([kind]) => kind === "source")?.[2];
      expect(JSON.stringify(row)).to.match(expected);
    });
  const isLive = () => shows(/^\{"state":"live"\}$/);
  const leader = () =>
    eventually(async () => {
      const told = await why("service", "disk-registry");
      const standby = NAMES.find((name) =>
        told.includes(`${mesh.address(name)}: the disk-registry that was asked is a standby`),
      );
      if (standby === undefined) throw new Error(told);
      return NAMES.find((name) => name !== standby) as string;
    });

  it("names the standby, the holder of the lease and its end when the leader is dead, until it is started again", async () => {
    const name = await leader();
    const address = mesh.address(name);
    await isLive();
    await mesh.process(name).kill();
    const stands = `is a standby: the process at ${address} has the lease, and this process takes over if`;
    await says(
      "pool",
      "default",
      new RegExp(
        `^3 pool default cannot be explained now: none of the processes .*: .*${stands}[\\s\\S]*STANDS_BY \\(since 20.*, next at 20[\\s\\S]*NO_ANSWER[\\s\\S]*${address}: the disk-registry there does not answer`,
      ),
    );
    await shows(
      new RegExp(`"state":"silent","trouble":"shown is what it said last; the .*${stands}.*","sinceMs":\\d+`),
    );
    await mesh.process(name).start();
    await isServed();
    await isLive();
  });

  it("names the dead database and the time since when, and nothing once it is back", async () => {
    await leader();
    const alerts = new AlertWatch(targets);
    await alerts.fires([]);
    store.database?.signal("SIGSTOP");
    await says(
      "pool",
      "default",
      /^3 pool default cannot be explained now: .*lacks its database: MongoDB at 127\.0\.0\.1:\d+\S* has not answered for more than \d+ ms.*, since 20[\s\S]*DATABASE_AWAY[\s\S]*start the database that `tablet.storage` of its config names/,
    );
    await shows(
      /"state":"silent","trouble":"shown is .*lacks its database: MongoDB at .*: start the database.*","sinceMs":\d+/,
    );
    await alerts.fires(FAULT_ALERTS["the database of the disk-registry is gone"]);
    store.database?.signal("SIGCONT");
    await isServed();
    await isLive();
  });

  it("shows slow commits when the database stops again and again, and the leader leads on", async () => {
    const deviceId = "host-1-device-1";
    const leads = await leader();
    const { registry } = mesh.clients;
    const alerts = new AlertWatch(targets, "diskmesh-disk-registry");
    await alerts.fires([]);
    let words = 0;
    await alerts.fires(FAULT_ALERTS["the database of the disk-registry stands still again and again"], async () => {
      store.database?.signal("SIGSTOP");
      const again = delay(STANDS_STILL_MS).then(() => store.database?.signal("SIGCONT"));
      const reason = `word ${++words}`;
      await Promise.all([again, registry.setDeviceState({ deviceIds: [deviceId], health: Health.WARNING, reason })]);
    });
    expect(await leader()).to.equal(leads);
  });

  it("shows on the page the director's dead database, since when, and the remedy, or ends the page's events", async () => {
    const config = {
      tablet: tabletOf("director"),
      http: { listen: mesh.listen(HTTPS), users: await httpUsers(ADMIN) },
      dispatcher: { address: "127.0.0.1:1" },
    };
    await mesh.add({ service: "director", config, waitFor: "leading" });
    const http = mesh.http();
    const page = new OpenPage(http);
    const own = () => page.rows.get("source director");
    await eventually(() => expect(own()).to.include({ state: "live" }));
    const stoppedAtMs = Date.now();
    store.database?.signal("SIGSTOP");
    const away =
      /^shown is what it said last; the director that was asked lacks its database: MongoDB at 127\.0\.0\.1:\d+\S* has not answered for .*: start the database that `tablet.storage`/;
    await eventually(async () => {
      const { state, trouble, sinceMs } = (await http.json("/page/self")) as SourceRow;
      expect(state).to.equal("silent");
      expect(trouble).to.match(away);
      expect(sinceMs).to.be.within(stoppedAtMs, Date.now());
      expect((await http.send("GET", "/page")).status).to.equal(200);
    });
    store.database?.signal("SIGCONT");
    await eventually(async () => {
      expect(own()).to.include({ state: "live" });
      expect((await http.json("/page/self")) as SourceRow).to.include({ state: "live" });
    });
    page.close();
  });
});
