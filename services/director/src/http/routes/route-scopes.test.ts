import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { Agent } from "node:https";
import { join } from "node:path";
import { leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { SignJWT } from "jose";
import { HttpClient } from "../../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../../testing/http-director.js";
import type { Route } from "../route.js";
import { allRoutes } from "./routes.js";

/** Placeholder for the id of the tested director. */
const OWN = "OWN";

/** The scopes in each login's token. Scopes that name a director are valid only at that director. */
const LOGINS = {
  nobody: [],
  admin: ["bosh.admin"],
  "admin here": [`bosh.${OWN}.admin`],
  "admin elsewhere": ["bosh.00000000-0000-0000-0000-000000000000.admin"],
  reader: ["bosh.read"],
  "reader here": [`bosh.${OWN}.read`],
  "reader elsewhere": ["bosh.00000000-0000-0000-0000-000000000000.read"],
  uploader: ["bosh.stemcells.upload"],
  creator: ["bosh.dynamic-disks.create"],
  attacher: ["bosh.dynamic-disks.attach"],
  provider: ["bosh.dynamic-disks.create", "bosh.dynamic-disks.attach"],
  detacher: ["bosh.dynamic-disks.detach"],
  deleter: ["bosh.dynamic-disks.delete"],
  lister: ["bosh.dynamic-disks.list"],
  "team's creator": ["bosh.teams.some.dynamic-disks.create"],
  "team's provider": ["bosh.teams.some.dynamic-disks.create", "bosh.teams.some.dynamic-disks.attach"],
  "teams' provider": ["bosh.teams.some.dynamic-disks.create", "bosh.teams.more.dynamic-disks.attach"],
  "team's detacher": ["bosh.teams.some.dynamic-disks.detach"],
  "team's deleter": ["bosh.teams.some.dynamic-disks.delete"],
  "team's lister": ["bosh.teams.some.dynamic-disks.list"],
  "team's admin": ["bosh.teams.some.admin"],
  "team's reader": ["bosh.teams.some.read"],
  caller: ["bosh.vendor-methods.call"],
} as const;
type Who = keyof typeof LOGINS;

const ADMINS: readonly Who[] = ["admin", "admin here"];
const READERS: readonly Who[] = [...ADMINS, "reader", "reader here"];
/** Allowed logins where no existing deployment is concerned: members of any team. */
const TEAM_ADMINS: readonly Who[] = [...ADMINS, "team's admin"];
const TEAM_READERS: readonly Who[] = [...READERS, "team's admin", "team's reader"];
const VENDORS: readonly Who[] = [...READERS, "caller"];
/** Logins that the usual test run tests; the full run tests all logins. */
const MOST_TOLD: readonly Who[] = ["nobody", "admin", "reader", "team's admin"];
const and = (...more: Who[]): readonly Who[] => [...ADMINS, ...more];

const TEAM_MAKERS = ["team's creator", "team's provider", "teams' provider", "team's admin"] as const;
const DISK_MAKERS = and("creator", "provider", ...TEAM_MAKERS);

const D = "/deployments/:deployment";
const I = `${D}/instance_groups/:group/:instance`;

/** The allowed logins of each route, written independently of the routes. The requested deployments do not exist. */
const ALLOWED: Readonly<Record<string, readonly Who[]>> = {
  "GET /tasks": TEAM_READERS,
  "DELETE /task/:id": TEAM_ADMINS,
  "POST /tasks/cancel": TEAM_ADMINS,
  "GET /dynamic_disks": and("lister", "team's lister", "team's admin", "team's reader"),
  "POST /dynamic_disks": DISK_MAKERS,
  "POST /dynamic_disks/provide": and("provider", "team's provider", "team's admin"),
  "POST /dynamic_disks/:name/attach": and("attacher", "provider", "team's provider", "teams' provider", "team's admin"),
  "POST /dynamic_disks/:name/resize": DISK_MAKERS,
  "POST /dynamic_disks/:name/limits": DISK_MAKERS,
  "GET /dynamic_disks/capacity": and("lister", "team's lister", "team's admin", "team's reader"),
  "POST /dynamic_disks/:name/detach": and("detacher", "team's detacher", "team's admin"),
  "DELETE /dynamic_disks/:name": and("deleter", "team's deleter", "team's admin"),
  "POST /dynamic_disks/:name/undelete": and("deleter", "team's deleter", "team's admin"),
  "GET /configs": TEAM_READERS,
  "GET /configs/:id": READERS,
  "GET /cloud_configs": READERS,
  "GET /runtime_configs": READERS,
  "GET /cpi_configs": ADMINS,
  "POST /configs": ADMINS,
  "POST /configs/diff": ADMINS,
  "DELETE /configs": ADMINS,
  "DELETE /configs/:id": ADMINS,
  "POST /cloud_configs": ADMINS,
  "POST /cloud_configs/diff": ADMINS,
  "POST /cpi_configs": ADMINS,
  "POST /cpi_configs/diff": ADMINS,
  "POST /runtime_configs": ADMINS,
  "POST /runtime_configs/diff": ADMINS,
  "GET /deployments": TEAM_READERS,
  "GET /deployment_configs": TEAM_READERS,
  "POST /deployments": TEAM_ADMINS,
  [`POST ${D}/diff`]: TEAM_ADMINS,
  [`GET ${D}`]: READERS,
  [`DELETE ${D}`]: ADMINS,
  [`GET ${D}/vms`]: READERS,
  [`GET ${D}/instances`]: READERS,
  "GET /stemcells": TEAM_READERS,
  "POST /stemcells": and("uploader"),
  "POST /stemcell_uploads": and("uploader"),
  "DELETE /stemcells/:name/:version": ADMINS,
  [`PUT ${D}/jobs/:group`]: ADMINS,
  [`PUT ${D}/jobs/:group/:instance`]: ADMINS,
  [`POST ${I}/actions/start`]: ADMINS,
  [`POST ${I}/actions/stop`]: ADMINS,
  [`POST ${I}/actions/restart`]: ADMINS,
  [`POST ${I}/actions/recreate`]: ADMINS,
  [`PUT ${I}/ignore`]: ADMINS,
  [`GET ${D}/jobs/:group/:instance/logs`]: ADMINS,
  "GET /disks": READERS,
  "GET /orphan_disks": READERS,
  "PUT /disks/:cid/attachments": ADMINS,
  "DELETE /disks/:cid": ADMINS,
  "DELETE /orphan_disks/:cid": ADMINS,
  "DELETE /vms/:cid": ADMINS,
  [`GET ${D}/snapshots`]: READERS,
  [`POST ${D}/snapshots`]: ADMINS,
  [`POST ${D}/jobs/:group/:instance/snapshots`]: ADMINS,
  [`DELETE ${D}/snapshots`]: ADMINS,
  [`DELETE ${D}/snapshots/:cid`]: ADMINS,
  [`POST ${D}/scans`]: ADMINS,
  [`GET ${D}/problems`]: READERS,
  [`PUT ${D}/problems`]: ADMINS,
  "POST /cleanup": ADMINS,
  "GET /cleanup/dryrun": ADMINS,
  "GET /resurrection": READERS,
  "PUT /resurrection": ADMINS,
  "GET /events": TEAM_READERS,
  "GET /events/:id": READERS,
  "GET /": VENDORS,
  "GET /v1": VENDORS,
  "GET /v1/drivers": VENDORS,
  "GET /v1/drivers/:ident": VENDORS,
  "GET /v1/drivers/:ident/properties": VENDORS,
  "GET /v1/nodes": VENDORS,
  "GET /v1/nodes/detail": VENDORS,
  "GET /v1/nodes/:ident": VENDORS,
  "GET /v1/nodes/:ident/validate": VENDORS,
  "GET /v1/ports": VENDORS,
  "GET /v1/ports/detail": VENDORS,
  "POST /page/logout": READERS,
  "GET /page/session": READERS,
  "GET /page/overview": READERS,
  "GET /page/self": READERS,
  "GET /page/why": READERS,
  "GET /page/devices": READERS,
  "GET /page/parts": READERS,
  "GET /page/host": READERS,
  "GET /page/journal": READERS,
  "GET /page/service": READERS,
  "GET /page/task": READERS,
  "GET /page/activity": READERS,
  "GET /page/docs/*": READERS,
  "GET /page/events": READERS,
  "POST /page/hosts/:name/state": ADMINS,
  "POST /page/hosts/:name/maintenance": ADMINS,
  "POST /page/hosts/:name/fence": ADMINS,
  "POST /page/hosts/:name/remove": ADMINS,
  "POST /page/hosts/:name/keep": ADMINS,
  "POST /page/hosts/:name/provide": and("provider"),
  "POST /page/instances/:name/provide": and("provider"),
  "POST /page/disks/:name/cancel-move": ADMINS,
  "POST /page/disks/:name/migrate": ADMINS,
  "POST /page/disks/:name/attach": and("attacher", "provider"),
  "POST /page/disks/:name/detach": and("detacher"),
  "POST /page/disks/:name/resize": and("creator", "provider"),
  "POST /page/disks/:name/limits": and("creator", "provider"),
  "POST /page/disks/:name/delete": and("deleter"),
  "POST /page/disks/:name/undelete": and("deleter"),
  "POST /page/tasks/:name/cancel": ADMINS,
  "POST /page/tasks/:name/resume": ADMINS,
  "POST /page/orphans/:name/delete": ADMINS,
  "POST /page/orphans/:name/forget": ADMINS,
  "GET /locks": READERS,
  "GET /releases": TEAM_READERS,
  "GET /networks": READERS,
  "GET /orphaned_vms": READERS,
  "GET /director/certificate_expiry": READERS,
  [`GET ${D}/variables`]: READERS,
  [`GET ${D}/errands`]: READERS,
  [`GET ${D}/certificate_expiry`]: READERS,
  "POST /releases": ADMINS,
  "POST /releases/export": ADMINS,
  "DELETE /releases/:name": ADMINS,
  "POST /packages/matches": ADMINS,
  [`POST ${D}/errands/:name/runs`]: ADMINS,
  [`POST ${D}/ssh`]: ADMINS,
};

/** Routes about one task, with the permissions for seeing that task. */
const OF_A_TASK = ["GET /tasks/:id", "GET /tasks/:id/output", "GET /resources/:id"];
/** Routes without a login: links to vendor methods, the page, its files and its login. */
const OPEN = ["HEAD /vendor_method", "GET /vendor_method", "GET /page", "GET /page/files/:name", "POST /page/login"];
/** Changes of nodes, which are refused. */
const OF_CHANGES = /^(POST|PUT|PATCH|DELETE) \/v1\/nodes\/:ident(\/\*)?$/;
/** Vendor method routes. The login needs the same scopes for every verb; the called method decides further. */
const OF_METHODS = /^[A-Z]+ \/v1\/(nodes|drivers)\/:ident\/vendor_passthru(\/:method)?$/;

const nameOf = ({ method, path }: Route): string => `${method} ${path}`;
const allowedAt = (name: string): readonly Who[] | undefined =>
  OF_METHODS.test(name) || OF_CHANGES.test(name) ? VENDORS : ALLOWED[name];
/** Routes of the Ironic API, whose errors have Ironic's format. */
const isVendors = ({ path }: Route): boolean => `${path}/`.startsWith("/v1/");
/** Returns a path to an object that does not exist. */
const pathOf = ({ path }: Route): string => path.replace(":instance", "0").replace(/:[a-z]+/g, "nothing-there");

describe("permissions of every route over HTTPS", () => {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  let mesh: HttpDirector;
  let directorId: string;
  // Reuses a connection: handshakes for about two thousand requests would dominate the test's time.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  before(async () => {
    const keyFile = join(temporaryFolder(), "tokens.pem");
    writeFileSync(keyFile, publicKey.export({ type: "spki", format: "pem" }));
    mesh = await startHttpDirector({ tokens: { url: "https://127.0.0.1:1", keyFile } });
    directorId = JSON.parse((await client("").send("GET", "/info")).body).uuid;
  });
  after(async () => {
    agent.destroy();
    await mesh?.director.stop();
  });

  const client = (login: string): HttpClient =>
    new HttpClient(mesh.director.certs, mesh.http.port, login, "127.0.0.1", agent);

  async function authorizationOf(who: Who): Promise<string> {
    const scope = LOGINS[who].map((each) => each.replace(OWN, directorId));
    const token = new SignJWT({ jti: "1", user_name: "ann", scope }).setProtectedHeader({ alg: "ES256" });
    return `Bearer ${await token.setExpirationTime("10m").sign(privateKey)}`;
  }

  it("every route has an entry in the table of allowed logins", () => {
    const unknown = allRoutes.map(nameOf).filter((name) => allowedAt(name) === undefined);
    expect([...new Set(unknown)].sort()).to.deep.equal([...OF_A_TASK, ...OPEN].sort());
    expect(allRoutes.filter(({ isOpen }) => isOpen).map(nameOf)).to.deep.equal(OPEN);
    const names = new Set(allRoutes.map(nameOf));
    expect(Object.keys(ALLOWED).filter((name) => !names.has(name))).to.deep.equal([]);
  });

  it("without a login, and with a wrong login -> 401 for every route", async () => {
    for (const route of allRoutes.filter(({ isOpen }) => !isOpen)) {
      const path = pathOf(route);
      const answer = await client("").send(route.method, path);
      expect(answer.status, path).to.equal(401);
      if (!isVendors(route)) expect(answer.body).to.equal(`Not authorized: '${path}'\n`);
    }
  });

  for (const who of Object.keys(LOGINS) as Who[])
    it(`requests by ${who} (${LOGINS[who].join(" and ") || "no scope"}) -> served exactly where the table allows it`, async function () {
      if (!MOST_TOLD.includes(who)) leaveToVerify(this);
      const authorization = await authorizationOf(who);
      const http = client("");
      for (const route of allRoutes) {
        const what = nameOf(route);
        const allowed = allowedAt(what);
        if (allowed === undefined) continue;
        const { status, body } = await http.send(route.method, pathOf(route), { body: "", headers: { authorization } });
        if (allowed.includes(who)) expect(status, what).to.be.oneOf([200, 204, 302, 400, 404, 501]);
        else if (isVendors(route)) expect(status, what).to.equal(403);
        else {
          expect(status, what).to.equal(401);
          expect(JSON.parse(body), what).to.include({ code: 600_000 });
        }
      }
    });
});
