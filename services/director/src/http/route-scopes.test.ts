import { Agent } from "node:https";
import { hashPassword } from "@diskmesh/pki/password-hash";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { scopesFor } from "../policy.js";
import { HttpClient } from "../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../testing/http-director.js";
import type { Route } from "./route.js";
import { allRoutes } from "./routes.js";

/** Which set of scopes each login has: those that the policy names, one that is a part of a set, and those of one director. */
const SETS: readonly (readonly string[])[] = [
  [],
  ["bosh.admin"],
  ["bosh.read"],
  ["bosh.00000000-0000-0000-0000-000000000000.admin"],
  ["bosh.stemcells.upload"],
  ["bosh.dynamic-disks.create"],
  ["bosh.dynamic-disks.attach"],
  ["bosh.dynamic-disks.create", "bosh.dynamic-disks.attach"],
  ["bosh.dynamic-disks.detach"],
  ["bosh.dynamic-disks.delete"],
  ["bosh.dynamic-disks.list"],
  ["bosh.teams.some.admin"],
  ["bosh.teams.some.read"],
];

/** Of one task, which are for who may see that. */
const guarded = allRoutes.filter((route): route is Route & { operation: NonNullable<Route["operation"]> } => {
  return route.operation !== undefined;
});

describe("every route over HTTPS", function () {
  this.timeout(120_000);
  let mesh: HttpDirector;
  let directorId: string;
  // About a thousand requests: a handshake for each would take longer than all the rest.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  before(async () => {
    const passwordHash = await hashPassword("pw");
    const users = SETS.map((scopes, index) => ({ name: `login-${index}`, passwordHash, scopes }));
    mesh = await startHttpDirector({ users });
    directorId = JSON.parse((await as(0).send("GET", "/info")).body).uuid;
    // A password is checked once; from then on it is remembered.
    for (const index of SETS.keys())
      await eventually(async () => (await as(index).send("GET", "/tasks")).status !== 429);
  });
  after(async () => {
    agent.destroy();
    await mesh?.director.stop();
  });

  const as = (index: number): HttpClient => client(`login-${index}:pw`);
  const client = (login: string): HttpClient =>
    new HttpClient(mesh.director.certs, mesh.http.port, login, "127.0.0.1", agent);
  /** Those that Ironic's clients know, with its answers. */
  const isVendors = ({ path }: Route): boolean => path.startsWith("/v1/");
  /** Of nothing that is there. */
  const pathOf = ({ path }: Route): string => path.replace(/:[a-z]+/g, "nothing-there");

  it("without a login, and with a wrong one -> 401, whatever it is asked for", async () => {
    for (const route of allRoutes) {
      const path = pathOf(route);
      const answer = await client("").send(route.method, path);
      expect(answer.status, path).to.equal(401);
      if (!isVendors(route)) expect(answer.body).to.equal(`Not authorized: '${path}'\n`);
    }
  });

  for (const [index, scopes] of SETS.entries())
    it(`with ${scopes.join(" and ") || "no scope"} -> what the policy grants, and nothing else`, async () => {
      const http = as(index);
      for (const route of guarded) {
        const what = `${route.method} ${route.path}`;
        const sets = scopesFor(route.operation, directorId, route.teams === "own" ? ["some"] : []);
        const granted = sets.some((set) => set.every((scope) => scopes.includes(scope)));
        const { status, body } = await http.send(route.method, pathOf(route), { body: "" });
        if (granted) expect(status, what).to.be.oneOf([200, 204, 302, 400, 404, 501]);
        else if (isVendors(route)) expect(status, what).to.equal(403);
        else {
          expect(status, what).to.equal(401);
          expect(JSON.parse(body), what).to.include({ code: 600_000 });
        }
      }
    });
});
