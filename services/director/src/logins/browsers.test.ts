import { Agent } from "node:https";
import { ManualClock } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { httpConfig } from "../config/http-config.js";
import { JSON_TYPES } from "../http/content-type.js";
import type { Route } from "../http/route.js";
import { allRoutes } from "../http/routes/routes.js";
import { UPLOADS_PATH } from "../instance-logs/log-files.js";
import { HttpClient } from "../testing/http-client.js";
import { type HttpDirector, httpUsers, startHttpDirector } from "../testing/http-director.js";
import { CLOUD_CONFIG } from "../testing/test-director.js";
import { NO_SESSION, PageSessions } from "./page-sessions.js";

const PATHS: Readonly<Record<string, string>> = {
  ":deployment": "web",
  ":instance": "0",
  ":id": "1",
  ":name": "main.js",
};
const pathOf = ({ path }: Pick<Route, "path">): string => path.replace(/:[a-z]+/g, (name) => PATHS[name] ?? "x");

/** Headers that browsers send on behalf of another site's page. */
const ELSEWHERE: readonly Readonly<Record<string, string>>[] = [
  { "sec-fetch-site": "cross-site" },
  { "sec-fetch-site": "same-site" },
  { "sec-fetch-site": "same-origin, cross-site" },
  { origin: "https://elsewhere.example" },
  { origin: "null" },
  { origin: "https://127.0.0.1", "sec-fetch-site": "none" },
  { origin: "https://127.0.0.1.elsewhere.example", "sec-fetch-site": "same-origin" },
];
/** Paths that are served outside of the route table. */
const MORE: readonly Pick<Route, "method" | "path" | "accepts">[] = [
  { method: "GET", path: "/info" },
  { method: "GET", path: "/healthz" },
  { method: "PUT", path: `${UPLOADS_PATH}/x` },
  { method: "POST", path: "/not/there" },
];

describe("browsers at the HTTPS API", () => {
  let mesh: HttpDirector;
  let http: HttpClient;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  before(async () => {
    mesh = await startHttpDirector();
    http = new HttpClient(mesh.director.certs, mesh.http.port, "admin:pw-admin", "127.0.0.1", agent);
    await mesh.director.deploy("web", 1);
  });
  after(async () => {
    agent.destroy();
    await mesh?.director.stop();
  });

  /** Returns everything that a request could have changed. */
  const state = async (): Promise<unknown[]> => [
    await http.json("/configs"),
    await http.json("/tasks?limit=100"),
    await http.json("/deployments"),
    await http.json("/resurrection"),
  ];

  describe("a request on behalf of another site is refused", () => {
    let stateBefore: unknown[];
    let auditedBefore: number;
    const audited = (): number => mesh.director.process.logs.split('"audit":"call"').length;

    before(async () => {
      stateBefore = await state();
      auditedBefore = audited();
    });

    for (const route of [...allRoutes.filter(({ isLinkable }) => !isLinkable), ...MORE])
      it(`${route.method} ${route.path}`, async () => {
        const [type = ""] = route.accepts ?? JSON_TYPES;
        const body = route.path === "/cloud_configs" ? CLOUD_CONFIG : "{}";
        for (const headers of ELSEWHERE) {
          const sent = { headers: { "content-type": type, ...headers }, body };
          const answer = await http.send(route.method, pathOf(route), sent);
          expect(answer.status, JSON.stringify(headers)).to.equal(403);
          if (route.method !== "HEAD") expect(answer.body).to.contain("another site");
        }
      });

    it("and changes nothing", async () => {
      expect(await state()).to.deep.equal(stateBefore);
      expect(audited()).to.equal(auditedBefore);
    });

    it("except a link to the page, and a signed one to a vendor's method, which no login makes", async () => {
      const linkable = new Set(allRoutes.filter(({ isLinkable }) => isLinkable).map(({ path }) => path));
      expect([...linkable]).to.deep.equal(["/vendor_method", "/page"]);
      for (const headers of ELSEWHERE) expect((await http.send("GET", "/page", { headers })).status).to.equal(200);
    });
  });

  it("requests of the page itself and of the address bar are served", async () => {
    const host = `127.0.0.1:${http.port}`;
    const own: readonly Readonly<Record<string, string>>[] = [
      { host, "sec-fetch-site": "none" },
      { host, "sec-fetch-site": "same-origin", origin: `https://${host}` },
      { host: `localhost:${http.port}`, origin: `https://LOCALHOST:${http.port}` },
    ];
    for (const headers of own) expect((await http.send("GET", "/tasks", { headers })).status).to.equal(200);
  });

  describe("a body of another type is refused", () => {
    for (const route of allRoutes)
      it(`${route.method} ${route.path}`, async () => {
        for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]) {
          const answer = await http.send(route.method, pathOf(route), {
            headers: { "content-type": type },
            body: "{}",
          });
          expect(answer.status, type).to.equal(415);
        }
      });
  });

  it("a type with parameters, in any case, is accepted, and any type without a body", async () => {
    const body = JSON.stringify({ resurrection_paused: false });
    for (const type of ["application/json; charset=utf-8", "Application/JSON"])
      expect((await http.send("PUT", "/resurrection", { headers: { "content-type": type }, body })).status).to.equal(
        204,
      );
    const empty = { headers: { "content-type": "application/octet-stream" }, body: "" };
    expect((await http.send("GET", "/tasks", empty)).status).to.equal(200);
  });

  describe("a login to the page", () => {
    const logIn = (name: string, password: string) =>
      http.send("POST", "/page/login", { login: "", body: JSON.stringify({ name, password }) });
    const cookieOf = (headers: { readonly "set-cookie"?: string[] | undefined }): string =>
      headers["set-cookie"]?.[0]?.split(";", 1)[0] ?? "";

    it("sets a cookie that scripts and other sites cannot read", async () => {
      const { status, headers } = await logIn("reader", "pw-reader");
      expect([status, headers["cache-control"]]).to.deep.equal([204, "no-store"]);
      const [cookie = ""] = headers["set-cookie"] ?? [];
      expect(cookie).to.match(/^__Host-diskmesh=\S+; Max-Age=43200; Path=\/; Secure; HttpOnly; SameSite=Strict$/);
    });

    it("is accepted below /page, and nowhere else", async () => {
      const cookie = cookieOf((await logIn("reader", "pw-reader")).headers);
      const seen = await http.send("GET", "/page/session", { login: "", headers: { cookie } });
      expect([seen.status, seen.body]).to.deep.equal([200, '{"name":"reader"}']);
      for (const path of ["/tasks", "/v1", "/events"])
        expect((await http.send("GET", path, { login: "", headers: { cookie } })).status, path).to.equal(401);
      expect(JSON.parse((await http.send("GET", "/info", { login: "", headers: { cookie } })).body).user).to.equal(
        null,
      );
      const body = JSON.stringify({ dry_run: false });
      const cancel = await http.send("POST", "/page/tasks/1/cancel", { login: "", headers: { cookie }, body });
      expect([cancel.status, cancel.body]).to.satisfy(
        ([code, text]: [number, string]) => code === 401 && /Require one of the scopes/.test(text),
      );
    });

    it("leaves an audit line that says so", async () => {
      const cookie = cookieOf((await logIn("admin", "pw-admin")).headers);
      const body = JSON.stringify({ dry_run: true });
      const headers = { cookie, "x-request-id": "by-session" };
      await http.send("POST", "/page/tasks/1/cancel", { login: "", headers, body });
      await eventually(() => {
        const [line = "{}"] = mesh.director.process.logs.split("\n").filter((each) => each.includes("by-session"));
        expect(JSON.parse(line)).to.include({ audit: "call", login: "admin", authentication: "session", status: 200 });
      });
    });

    it("needs the right password", async () => {
      for (const [name, password] of [
        ["reader", "wrong"],
        ["mallory", "pw-reader"],
        ["reader:pw-reader", "x"],
      ] as const) {
        const { status, headers } = await logIn(name, password);
        expect([status, headers["set-cookie"], headers["www-authenticate"]]).to.deep.equal([401, undefined, undefined]);
      }
      expect((await http.send("POST", "/page/login", { login: "", body: '{"name":"reader"}' })).status).to.equal(400);
    });

    describe("ends with log out", () => {
      const statusOf = async (cookie: string, path = "/page/session") =>
        (await http.send("GET", path, { login: "", headers: { cookie } })).status;
      const logOut = (cookie: string) => http.send("POST", "/page/logout", { login: "", headers: { cookie } });
      let copied: string;
      let other: string;

      before(async () => {
        copied = cookieOf((await logIn("reader", "pw-reader")).headers);
        other = cookieOf((await logIn("reader", "pw-reader")).headers);
      });

      it("for every copy of its cookie, and for no other session of the user", async () => {
        expect(await statusOf(copied)).to.equal(200);
        const { status, headers } = await logOut(copied);
        expect([status, headers["set-cookie"]]).to.deep.equal([204, [NO_SESSION]]);
        for (const path of ["/page/session", "/page/overview", "/page/self", "/page/docs/README.md", "/page/activity"])
          expect([path, await statusOf(copied, path)]).to.deep.equal([path, 401]);
        expect((await logOut(copied)).status).to.equal(401);
        expect(await statusOf(other)).to.equal(200);
      });

      it("also after a restart of the director", async () => {
        await mesh.director.process.restart();
        expect(await statusOf(copied)).to.equal(401);
        expect(await statusOf(other)).to.equal(200);
      });

      it("and not with a login by password, which has no session", async () => {
        expect((await http.send("POST", "/page/logout")).status).to.equal(204);
        expect((await http.send("GET", "/page/session")).status).to.equal(200);
      });
    });
  });
});

describe("sessions of the page", () => {
  const clock = new ManualClock();
  let users: ReadonlyMap<string, ReturnType<typeof httpConfig.parse>["users"][number]>;
  let cookie: string;

  before(async () => {
    const config = httpConfig.parse({ users: await httpUsers({ ann: ["bosh.read"], bob: ["bosh.admin"] }) });
    users = new Map(config.users.map((user) => [user.name, user]));
    cookie = new PageSessions(users, clock).begin("ann").split(";", 1)[0] ?? "";
  });

  it("are accepted by every director with the same users, among other cookies", () => {
    for (const cookies of [cookie, `a=b; ${cookie}`, `${cookie}; __Host-other=x`])
      expect(new PageSessions(users, clock).loginOf(cookies)).to.deep.include({ name: "ann", scopes: ["bosh.read"] });
  });

  it("end after 12 hours", async () => {
    const later = new ManualClock();
    const sessions = new PageSessions(users, later);
    const begun = sessions.begin("ann").split(";", 1)[0];
    await later.advance(12 * 3_600_000 - 1_000);
    expect(sessions.loginOf(begun)).to.have.property("name", "ann");
    await later.advance(2_000);
    expect(sessions.loginOf(begun)).to.equal(undefined);
  });

  it("end with the user, and with a change of the password", async () => {
    const [ann] = httpConfig.parse({ users: await httpUsers({ ann: ["bosh.read"] }) }).users;
    expect(ann?.passwordHash).not.to.equal(users.get("ann")?.passwordHash);
    for (const others of [new Map(), ann === undefined ? new Map() : new Map([["ann", ann]])])
      expect(new PageSessions(others, clock).loginOf(cookie)).to.equal(undefined);
  });

  it("are refused when any part is changed", () => {
    const sessions = new PageSessions(users, clock);
    const [name = "", end = "", id = "", signature = ""] = cookie.slice("__Host-diskmesh=".length).split(".");
    const bob = Buffer.from("bob").toString("base64url");
    const forged = [
      `${bob}.${end}.${id}.${signature}`,
      `${name}.${Number(end) + 1}.${id}.${signature}`,
      `${name}.${end}.${id}x.${signature}`,
      `${name}.${end}.${signature}`,
      `${name}.${end}.${id}.${signature.slice(1)}`,
      `${name}.${end}.${id}.`,
      `${name}..${id}.${signature}`,
      `${name}.Infinity.${id}.${signature}`,
      "",
      "....",
    ];
    for (const each of forged) expect(sessions.loginOf(`__Host-diskmesh=${each}`), each).to.equal(undefined);
    expect(sessions.loginOf(cookie.replace("__Host-", ""))).to.equal(undefined);
    expect(sessions.loginOf(undefined)).to.equal(undefined);
  });
});
