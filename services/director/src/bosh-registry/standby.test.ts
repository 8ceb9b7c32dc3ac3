import { request as httpRequest } from "node:http";
import { type Logger, servedElsewhere, silentLogger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import { freePort } from "@diskmesh/testkit";
import { expect } from "chai";
import { DIRECTOR_LIMITS } from "../config/limits.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { openState } from "../testing/open-state.js";
import { BoshRegistryServer } from "./bosh-registry-server.js";

/** Two loopback addresses let two directors listen at the same port, as on two machines. */
const HOSTS = ["127.0.0.1", "127.0.0.2"] as const;
type Host = (typeof HOSTS)[number];
const LOGIN = Buffer.from("admin:registry-pa55").toString("base64");
const MINE = { agent_id: "a", networks: { n: { ip: "127.0.0.1" } } };
const OTHER = { agent_id: "b", networks: { n: { ip: "10.9.9.9" } } };

describe("the bosh-registry of a standby director", () => {
  let port: number;
  let tablet: DirectorTablet;
  let leader: Host | undefined = HOSTS[1];
  const lines: object[] = [];
  const servers: BoshRegistryServer[] = [];

  before(async () => {
    port = await freePort();
    ({ tablet } = await openState());
    for (const host of HOSTS) {
      const config = { listen: { host, port }, user: "admin", password: "registry-pa55" };
      const current = () => {
        if (leader === host) return { tablet };
        throw servedElsewhere("this director stands by", leader === undefined ? "" : `${leader}:7010`);
      };
      const info = (line: object) => lines.push({ host, ...line });
      const log = { ...silentLogger, info, warn: info } as Logger;
      const rest = { limits: DIRECTOR_LIMITS.boshRegistry, leaderWaitMs: 500, clock: systemClock, log };
      servers.push(new BoshRegistryServer({ config, current, ...rest }));
    }
    for (const server of servers) await server.listen();
  });
  after(() => Promise.all(servers.map((server) => server.close())));
  beforeEach(() => {
    leader = HOSTS[1];
    lines.length = 0;
  });

  /** Sends a request to the first director, as CPIs and agents do. */
  const ask = (method: string, id: string, { login = LOGIN, body = "", headers = {} } = {}) =>
    new Promise<readonly [number | undefined, unknown]>((resolve, reject) => {
      const own = login === "" ? headers : { authorization: `Basic ${login}`, ...headers };
      const path = `/instances/${id}/settings`;
      const place = { host: HOSTS[0], port, method, path, headers: own, agent: false };
      httpRequest(place, (response) => {
        let text = "";
        response.on("data", (piece) => {
          text += piece;
        });
        response.on("end", () => resolve([response.statusCode, JSON.parse(text)]));
      })
        .once("error", reject)
        .end(body);
    });
  const put = (id: string, settings: object) => ask("PUT", id, { body: JSON.stringify(settings) });
  const ok = (settings: object) => [200, { status: "ok", settings: JSON.stringify(settings) }];
  const DENIED = [401, { status: "access_denied" }];

  it("forwards a CPI's PUT and DELETE to the leader, and logs that it did", async () => {
    expect(await put("mine", MINE)).to.deep.equal([200, { status: "ok" }]);
    const [kept] = await tablet.read((tables) => [...tables.registrySettings.entries()]);
    expect(kept).to.deep.equal({ id: "mine", settings: JSON.stringify(MINE), agentId: "a" });
    expect(await ask("GET", "mine")).to.deep.equal(ok(MINE));
    const about = { method: "PUT", instance: "mine", remoteAddress: "127.0.0.1" };
    const [atLeader, here] = lines;
    expect(atLeader).to.include({ host: HOSTS[1], audit: "call", askedBy: "127.0.0.1", ...about });
    expect(here).to.include({ host: HOSTS[0], audit: "passed_on", ...about });
    expect(await ask("DELETE", "mine")).to.deep.equal([200, { status: "ok" }]);
    expect(await ask("GET", "mine")).to.deep.equal([404, { status: "not_found" }]);
  });

  it("the leader changes -> the same address serves the same settings", async () => {
    await put("mine", MINE);
    leader = HOSTS[0];
    expect(await ask("GET", "mine")).to.deep.equal(ok(MINE));
    leader = HOSTS[1];
    expect(await ask("GET", "mine")).to.deep.equal(ok(MINE));
  });

  it("an agent without a login -> receives the settings of its own address only", async () => {
    await put("mine", MINE);
    await put("other", OTHER);
    expect(await ask("GET", "mine", { login: "" })).to.deep.equal(ok(MINE));
    expect(await ask("GET", "other", { login: "" })).to.deep.equal(DENIED);
    expect(await ask("GET", "nobody", { login: "" })).to.deep.equal(DENIED);
    expect(await ask("PUT", "other", { login: "", body: "{}" })).to.deep.equal(DENIED);
  });

  for (const who of HOSTS)
    it(`a client without a login that claims another address -> gets no settings while ${who} leads`, async () => {
      await put("other", OTHER);
      leader = who;
      for (const login of ["yes", "no"]) {
        const headers = { "x-diskmesh-client-address": "10.9.9.9", "x-diskmesh-client-login": login };
        expect(await ask("GET", "other", { login: "", headers })).to.deep.equal(DENIED);
      }
      for (const line of lines) expect(line).not.to.include({ askedBy: "10.9.9.9" });
    });

  it("a wrong login -> refused by the standby without a request to the leader", async () => {
    expect(await ask("GET", "mine", { login: "eDp5" })).to.deep.equal(DENIED);
    expect(lines.map((line) => (line as { host: Host }).host)).to.deep.equal([HOSTS[0]]);
  });

  it("without a leader -> 503 after a while; with a new leader in time -> answered", async () => {
    await put("mine", MINE);
    leader = undefined;
    const [code] = await ask("GET", "mine");
    expect(code).to.equal(503);
    const asked = ask("GET", "mine");
    setTimeout(() => {
      leader = HOSTS[1];
    }, 200);
    expect(await asked).to.deep.equal(ok(MINE));
  });

  it("a forwarded request to a former leader is not forwarded again, so no request circulates", async () => {
    const headers = { "x-diskmesh-client-address": "10.0.0.9", "x-diskmesh-client-login": "yes" };
    const [code, body] = await ask("GET", "mine", { headers });
    expect([code, body]).to.deep.equal([503, { status: "error", message: "this director stands by" }]);
  });
});
