import { createServer } from "node:net";
import { type Logger, silentLogger } from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { createLogger } from "../telemetry/log.js";
import { HealthHttp } from "./health-http.js";
import { LeaderHealth } from "./leader-health.js";
import { Readiness } from "./readiness.js";

describe("Readiness", () => {
  it("requires that the process serves and no need is missing, and has a reason for each need", () => {
    const readiness = new Readiness({ needs: ["leader", "nats"], log: silentLogger });
    const steps: [() => void, boolean, string][] = [
      [() => {}, false, "leader: not yet; nats: not yet"],
      [() => readiness.setServing(true), false, "leader: not yet; nats: not yet"],
      [() => readiness.met("leader"), false, "nats: not yet"],
      [() => readiness.met("nats"), true, ""],
      [() => readiness.met("database"), true, ""],
      [() => readiness.missing("dispatcher", "nobody asked for it"), true, ""],
      [() => readiness.missing("nats", "127.0.0.1:4222: refused"), false, "nats: 127.0.0.1:4222: refused"],
      [() => readiness.forget("nats"), false, ""],
      [() => readiness.met("nats"), true, ""],
      [() => readiness.setServing(false), false, "it does not serve now"],
    ];
    for (const [step, ready, why] of steps) {
      step();
      expect(readiness.report()).to.include({ ready, why });
    }
    expect([...readiness.report().needs.keys()]).to.deep.equal(["leader", "nats"]);
  });

  it("has the alerts of its log, without those that a missing need tells", () => {
    const log = createLogger({ service: "s", level: "silent" });
    const readiness = new Readiness({ needs: ["certificate"], log });
    const names: string[][] = [];
    readiness.onChange(({ alerts }) => names.push([...alerts.keys()]));
    readiness.met("certificate");
    log.warn({ alert: "memory" }, "short");
    log.error({ alert: "certificate_ended" }, "ended");
    readiness.missing("certificate", "ended");
    log.info({ alertEnded: "memory" }, "enough");
    expect(names).to.deep.equal([[], [], ["memory"], ["memory", "certificate_ended"], ["memory"], []]);
  });

  it("notifies of each change at once, and logs each loss and its end once", () => {
    const lines: string[] = [];
    const note = (_fields: object, message: string) => lines.push(message);
    const log = { ...silentLogger, info: note, warn: note } as Logger;
    const readiness = new Readiness({ needs: ["nats"], log });
    const told: boolean[] = [];
    readiness.onChange(({ ready }) => told.push(ready));
    readiness.setServing(true);
    readiness.missing("nats", "refused");
    readiness.met("nats");
    readiness.met("nats");
    for (const why of ["refused", "refused", "timed out"]) readiness.missing("nats", why);
    readiness.met("nats");
    expect(told).to.deep.equal([false, false, false, true, false, false, true]);
    expect(lines).to.deep.equal(["readiness condition lost: nats (refused)", "readiness condition restored: nats"]);
  });
});

const DATABASE = { name: "MongoDB at db-1", silentMs: 4_000 };

describe("LeaderHealth", () => {
  function scene({ isFolder = false } = {}) {
    const clock = new ManualClock();
    const readiness = new Readiness({ needs: ["leader", "database"], log: silentLogger });
    const health = new LeaderHealth({ readiness, clock, database: isFolder ? undefined : DATABASE });
    const stop = new AbortController();
    void health.watch(stop.signal);
    return { clock, readiness, health, stop };
  }

  it("of a leader whose lease ran out is not serving and not ready, until it has the lease again", async () => {
    const { clock, readiness, health, stop } = scene();
    let lost: Error | undefined;
    health.leads(() => {
      if (lost) throw lost;
    });
    expect(readiness.report()).to.include({ ready: true, serving: true, standsByFor: undefined });
    lost = new Error("the lease ran out 3 ms ago");
    await clock.advance(300);
    expect(readiness.report()).to.include({ ready: false, serving: false, why: "leader: the lease ran out 3 ms ago" });
    lost = undefined;
    await clock.advance(300);
    expect(readiness.report()).to.include({ ready: true, serving: true });
    stop.abort();
  });

  it("reports a silent database as missing, for a leader and a standby, until it answers", async () => {
    for (const begin of ["leads", "standsBy"] as const) {
      const { clock, readiness, health, stop } = scene();
      if (begin === "leads") health.leads(() => {});
      else health.standsBy("10.0.0.1:7000");
      const isMet = () => readiness.report().needs.get("database")?.met;
      await clock.advance(3_000);
      health.answered();
      await clock.advance(3_900);
      expect(isMet(), begin).to.equal(true);
      await clock.advance(400);
      expect(isMet(), begin).to.equal(false);
      expect(readiness.report().why).to.contain("MongoDB at db-1 has not answered for more than 4000 ms");
      health.answered();
      expect(isMet(), begin).to.equal(true);
      stop.abort();
    }
  });

  it("reports a state in a folder as present during the whole term", async () => {
    const { clock, readiness, health, stop } = scene({ isFolder: true });
    health.leads(() => {});
    await clock.advance(3_600_000);
    expect(readiness.report().ready).to.equal(true);
    health.endsLeading("it leads no more");
    health.databaseFails("the disk is full");
    expect(readiness.report().why).to.equal("leader: it leads no more; database: the disk is full");
    stop.abort();
  });

  it("of a standby is not ready, and names the leader, until it leads itself", () => {
    const { readiness, health, stop } = scene();
    health.standsBy("10.0.0.1:7000");
    expect(readiness.report()).to.include({ ready: false, standsByFor: "10.0.0.1:7000" });
    expect(readiness.report().why).to.equal("leader: this process is a standby of the leader at 10.0.0.1:7000");
    health.leads(() => {});
    expect(readiness.report()).to.include({ ready: true, standsByFor: undefined });
    health.endsLeading("the lease of tablet registry has been taken by 10.0.0.1:7000");
    expect(readiness.report()).to.include({ ready: false, standsByFor: undefined });
    stop.abort();
  });
});

describe("health over HTTP", () => {
  const readiness = new Readiness({ needs: ["leader", "nats"], log: silentLogger });
  const http = new HealthHttp(readiness);
  let url: string;

  before(async () => {
    url = `http://127.0.0.1:${await http.listen({ host: "127.0.0.1", port: 0 })}`;
  });
  after(() => http.close());

  async function get(path: string, method = "GET"): Promise<[number, unknown]> {
    const response = await fetch(`${url}${path}`, { method });
    const body = await response.text();
    return [response.status, body === "" ? "" : JSON.parse(body)];
  }

  it("/healthz answers while the process does, /readyz has the missing needs, and the leader of a standby", async () => {
    readiness.standsBy("10.0.0.1:7000");
    readiness.missing("leader", "this process stands by");
    readiness.forget("nats");
    expect(await get("/healthz")).to.deep.equal([200, { alive: true }]);
    const needs = { leader: { status: "NOT_SERVING", why: "this process stands by" }, nats: { status: "UNKNOWN" } };
    expect(await get("/readyz")).to.deep.equal([503, { ready: false, standsByFor: "10.0.0.1:7000", needs }]);
    readiness.standsBy(undefined);
    for (const need of ["leader", "nats"] as const) readiness.met(need);
    readiness.setServing(true);
    const all = { leader: { status: "SERVING" }, nats: { status: "SERVING" } };
    expect(await get("/readyz?verbose")).to.deep.equal([200, { ready: true, needs: all }]);
    expect(await get("/readyz", "HEAD")).to.deep.equal([200, ""]);
    expect((await get("/"))[0]).to.equal(404);
    expect((await get("/readyz", "POST"))[0]).to.equal(405);
  });

  it("/readyz?standbyok answers 200 for a leader and a standby, and 503 for a standby that lacks more than the lead", async () => {
    const status = async () => (await get("/readyz?standbyok"))[0];
    readiness.setServing(true);
    for (const need of ["leader", "nats"] as const) readiness.met(need);
    expect(await status()).to.equal(200);
    readiness.setServing(false);
    readiness.missing("leader", "this process has lost its lease");
    expect(await status()).to.equal(503);
    readiness.standsBy("10.0.0.1:7000");
    expect(await status()).to.equal(200);
    readiness.missing("nats", "refused");
    expect(await status()).to.equal(503);
    readiness.forget("nats");
    expect(await status()).to.equal(200);
    expect((await get("/readyz"))[0]).to.equal(503);
  });

  it("an address in use is an error that names its key", async () => {
    const taken = createServer();
    const port = await new Promise<number>((resolve) =>
      taken.listen(0, "127.0.0.1", () => resolve((taken.address() as { port: number }).port)),
    );
    const second = new HealthHttp(readiness);
    await rejection(
      second.listen({ host: "127.0.0.1", port }),
      Error,
      /^health\.listen: cannot listen on 127\.0\.0\.1:/,
    );
    taken.close();
  });
});
