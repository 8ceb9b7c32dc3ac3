import { Agent } from "node:https";
import { expect } from "chai";
import { HttpClient, type TaskObject } from "../../testing/http-client.js";
import { type HttpDirector, httpUsers, startHttpDirector } from "../../testing/http-director.js";
import { CLOUD_CONFIG, manifest } from "../../testing/test-director.js";
import { allRoutes } from "./routes.js";

type Listed = Readonly<Record<string, unknown>>;

const SCOPES = {
  admin: ["bosh.admin"],
  reader: ["bosh.read"],
  a: ["bosh.teams.a.admin"],
  "a-reader": ["bosh.teams.a.read"],
  b: ["bosh.teams.b.admin"],
  "a-and-b": ["bosh.teams.a.admin", "bosh.teams.b.admin"],
  odd: ["bosh.teams.admin", "bosh.teams..admin", "bosh.teams.a.x.admin", "xbosh.teams.a.admin", "bosh.teams.a.adminx"],
};
type Name = keyof typeof SCOPES;

describe("teams over HTTPS", () => {
  let mesh: HttpDirector;
  const agent = new Agent({ keepAlive: true, maxSockets: 2 });

  const as = (name: Name): HttpClient =>
    new HttpClient(mesh.director.certs, mesh.http.port, `${name}:pw-${name}`, "127.0.0.1", agent);
  const status = async (name: Name, method: string, path: string, body = ""): Promise<number> =>
    (await as(name).send(method, path, { body })).status;
  const list = async (name: Name, path: string) => (await as(name).json(path)) as Listed[];
  const deploy = (name: Name, deployment: string) =>
    as(name).task("POST", "/deployments", { body: manifest(deployment, 0) });
  const descriptions = async (name: Name) =>
    (await list(name, "/tasks?verbose=2")).map(({ description }) => description);

  before(async () => {
    mesh = await startHttpDirector({ users: await httpUsers(SCOPES) });
    await mesh.director.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    for (const [name, deployment] of [
      ["a", "of-a"],
      ["b", "of-b"],
      ["admin", "of-none"],
      ["a-and-b", "of-both"],
    ] as const)
      expect((await deploy(name, deployment)).task).to.include({ state: "done" });
  });
  after(async () => {
    agent.destroy();
    await mesh?.director.stop();
  });

  it("a deployment -> belongs to the team whose admin created it, whoever deploys it later", async () => {
    expect((await deploy("admin", "of-a")).task.state).to.equal("done");
    const teams = (await list("reader", "/deployments")).map(({ name, teams }) => [name, teams]);
    expect(teams).to.deep.equal([
      ["of-a", ["a"]],
      ["of-b", ["b"]],
      ["of-both", ["a", "b"]],
      ["of-none", []],
    ]);
  });

  it("lists -> only objects of the login's teams", async () => {
    const names = async (name: Name) => (await list(name, "/deployments")).map((each) => each.name);
    for (const name of ["a", "a-reader"] as const) {
      expect(await names(name)).to.deep.equal(["of-a", "of-both"]);
      expect(await descriptions(name)).to.have.members([
        "create deployment `of-a`",
        "create deployment `of-a`",
        "create deployment `of-both`",
      ]);
      const configs = await list(name, "/deployment_configs?deployment[]=of-a&deployment[]=of-b&deployment[]=nothing");
      expect(configs.map(({ deployment }) => deployment)).to.deep.equal(["of-a"]);
      for (const path of ["/configs?latest=true&limit=1&type=deploy", "/configs", "/stemcells", "/releases"])
        expect(await list(name, path)).to.deep.equal([]);
      const others = ["/configs/1", "/cloud_configs", "/cpi_configs", "/disks", "/locks", "/events/1", "/resurrection"];
      for (const path of others) expect(await status(name, "GET", path), path).to.equal(401);
      const told = new Set((await list(name, "/events")).map(({ deployment }) => deployment));
      expect(told).to.deep.equal(new Set(["of-a", "of-both"]));
      expect(await list(name, "/events?deployment=of-b")).to.deep.equal([]);
    }
    expect(await names("b")).to.deep.equal(["of-b", "of-both"]);
    for (const path of ["/deployments", "/tasks", "/stemcells", "/configs", "/events?deployment=of-a"])
      expect(await status("odd", "GET", path), path).to.equal(401);
  });

  it("routes of a deployment -> team admins may call all, team readers the read-only routes, others none", async () => {
    const routes = allRoutes.filter(({ path }) => path.includes("/:deployment"));
    expect(routes.length).to.be.above(20);
    for (const { method, path, operation } of routes) {
      const at = (deployment: string): string => path.replace(":deployment", deployment).replace(/:[a-z]+/g, "9");
      const what = `${method} ${path}`;
      const reads = method === "GET" && operation !== "fetchLogs";
      const refused = [
        ["b", "of-a"],
        ["odd", "of-a"],
        ["a", "of-none"],
        ["a-reader", "of-none"],
        ["a-reader", "of-b"],
        ...(reads ? [] : [["a-reader", "of-a"]]),
      ] as const;
      for (const [name, deployment] of refused)
        expect(await status(name as Name, method, at(deployment as string)), `${name}: ${what}`).to.equal(401);
      if (reads) expect(await status("a-reader", method, at("of-a")), what).to.be.oneOf([200, 302]);
      // The deletion by an admin of the team is left out, because it would end the checks of the other routes.
      const isDeletion = method === "DELETE" && path === "/deployments/:deployment";
      if (!isDeletion) expect(await status("a", method, at("of-a")), what).to.be.oneOf([200, 204, 302, 400, 404, 501]);
    }
  });

  it("deploy and its diff -> permitted for own and new deployments, refused for others", async () => {
    const deployed = (name: Name, deployment: string) =>
      as(name).send("POST", "/deployments", { body: manifest(deployment, 0) });
    for (const deployment of ["of-b", "of-none"]) {
      const answer = await deployed("a", deployment);
      expect([answer.status, JSON.parse(answer.body)]).to.deep.equal([
        401,
        { code: 600_000, description: `deployment \`${deployment}\` belongs to none of the teams a` },
      ]);
    }
    expect((await deployed("a-reader", "new")).status).to.equal(401);
    expect((await deployed("odd", "new")).status).to.equal(401);
    expect((await deployed("a", "of-both")).status).to.equal(302);
    expect(await status("a", "POST", "/deployments/new/diff", manifest("new", 0))).to.equal(200);
    expect(await status("a-reader", "POST", "/deployments/new/diff", manifest("new", 0))).to.equal(401);
    const dryRun = await as("a").task("POST", "/deployments?dry_run=true", { body: manifest("new", 1) });
    expect(dryRun.events.map(({ task }) => task)).to.include("db/0 would get a vm");
    const refused = await as("odd").send("GET", "/deployments/of-a");
    expect(refused.body).to.match(/bosh\.admin, .*\.admin, bosh\.teams\.a\.admin, bosh\.teams\.a\.read, bosh\.read/);
  });

  it("two teams create the same deployment at once -> one owns it, the other's deploy fails", async () => {
    const outcomes = await Promise.all(
      (["a", "b"] as const).map((name) =>
        deploy(name, "raced").then(
          ({ task }) => task.state,
          (error: Error) => (/answered with 401/.test(error.message) ? "error" : error.message),
        ),
      ),
    );
    expect([...outcomes].sort()).to.deep.equal(["done", "error"]);
    const [raced] = (await list("reader", "/deployments")).filter(({ name }) => name === "raced");
    expect(raced?.teams).to.deep.equal([outcomes[0] === "done" ? "a" : "b"]);
  });

  it("tasks -> belong to the team that owned the deployment at the request, even if another team recreates it", async () => {
    const { task } = await deploy("a", "handed-on");
    const of = (id: number, name: Name, type: string) =>
      status(name, "GET", `/tasks/${id}${type === "" ? "" : `/output?type=${type}`}`);
    for (const [type, allowed] of [
      ["", ["a", "a-reader", "a-and-b", "reader"]],
      ["event", ["a", "a-reader", "a-and-b", "reader"]],
      ["result", ["a", "a-reader", "a-and-b", "reader"]],
      ["debug", ["a", "a-and-b"]],
      ["cpi", ["a", "a-and-b"]],
    ] as const)
      for (const name of ["a", "a-reader", "a-and-b", "b", "reader", "odd"] as const)
        expect(await of(task.id, name, type), `${name} ${type}`).to.equal(
          (allowed as readonly string[]).includes(name) ? 200 : 401,
        );
    for (const [name, expected] of [
      ["a", 400],
      ["a-reader", 401],
      ["b", 401],
    ] as const)
      expect(await status(name, "DELETE", `/task/${task.id}`), name).to.equal(expected);
    expect((await as("a").task("DELETE", "/deployments/handed-on")).task.state).to.equal("done");
    expect((await deploy("b", "handed-on")).task.state).to.equal("done");
    const seen = (await list("b", "/tasks?verbose=2&deployment=handed-on")) as unknown as TaskObject[];
    expect(seen.map(({ user }) => user)).to.deep.equal(["b"]);
    expect(await of(task.id, "b", "")).to.equal(401);
    expect(await of(task.id, "a", "")).to.equal(200);
  });

  it("cancel all -> cancels only tasks of the login's teams", async () => {
    const gate = mesh.director.cpi.gate("createVm", "before");
    const started = await as("b").send("POST", "/deployments", { body: manifest("waiting", 1) });
    await gate.reached;
    const body = JSON.stringify({ states: ["queued", "processing"] });
    const stateNow = async () => ((await as("b").json(started.headers.location ?? "")) as TaskObject).state;
    expect(await status("a", "POST", "/tasks/cancel", body)).to.equal(204);
    expect(await status("a-reader", "POST", "/tasks/cancel", body)).to.equal(401);
    expect(await stateNow()).to.equal("processing");
    expect(await status("b", "POST", "/tasks/cancel", body)).to.equal(204);
    expect(await stateNow()).to.be.oneOf(["cancelling", "cancelled"]);
    gate.release();
    await mesh.director.ended(Number(started.headers.location?.split("/").at(-1)));
  });
});
