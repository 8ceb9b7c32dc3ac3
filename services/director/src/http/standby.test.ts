import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { SourceRow } from "@diskmesh/page/rows";
import { expect } from "chai";
import type { HttpClient } from "../testing/http-client.js";
import { StandbyApi } from "../testing/standby-api.js";

describe("the HTTPS API of a standby director", () => {
  let api: StandbyApi;
  let http: HttpClient;

  before(async () => {
    api = await StandbyApi.start();
    http = api.client();
  });
  after(() => api?.stop());
  afterEach(() => api.reset());

  async function bodyOf(request: IncomingMessage): Promise<string> {
    let text = "";
    for await (const piece of request) text += String(piece);
    return text;
  }

  it("no known leader -> alive, not ready, and answers 503 with a retry time", async () => {
    api.leaderAddress = "";
    expect((await http.send("GET", "/healthz")).status).to.equal(200);
    expect(await http.send("GET", "/readyz")).to.include({ status: 503, body: "leader: it stands by\n" });
    for (const path of ["/info", "/tasks", "/deployments/x", "/tasks/1"]) {
      const answer = await http.send("GET", path);
      expect(answer.status).to.equal(503);
      expect(answer.headers["retry-after"]).to.equal("1");
      expect(JSON.parse(answer.body)).to.deep.equal({ code: 100, description: "this director stands by" });
    }
    expect((await http.send("GET", "/tasks", { login: "admin:q" })).status).to.equal(401);
  });

  it("the page -> served here, with the reason why this director does not lead; its rows by no director", async () => {
    api.leaderAddress = "";
    expect((await http.send("GET", "/page")).body).to.contain("<!doctype html>");
    expect((await http.send("GET", "/page/files/main.js")).status).to.equal(200);
    expect((await http.send("GET", "/page/overview")).status).to.equal(503);
    const { state, trouble, sinceMs, cures } = (await http.json("/page/self")) as SourceRow;
    expect({ state, trouble }).to.deep.equal({
      state: "silent",
      trouble:
        "shown is what it said last; the director that was asked is a standby: the process at 10.0.0.1:7010 has the lease, and this process takes over if the lease is not renewed in time: wait for the takeover, or start the process at 10.0.0.1:7010: diskmesh status",
    });
    expect(sinceMs).to.be.closeTo(Date.now(), 60_000);
    expect(cures).to.deep.equal([
      { what: "wait for the takeover, or start the process at 10.0.0.1:7010", command: "diskmesh status" },
    ]);
    // A single attempt, because repeated failures would trigger the rate limiter and delay the following tests.
    expect((await http.send("GET", "/page/self", { login: "admin:q" })).status).to.equal(401);
  });

  it("forwards a link of a vendor's method, which has no login", async () => {
    const got: unknown[] = [];
    await api.lead((request, response) => {
      got.push([request.url, request.headers.authorization]);
      response.writeHead(200, { "content-type": "text/plain" }).end("#!ipxe");
    });
    const answer = await http.send("GET", "/vendor_method?link=a.b", { login: "" });
    expect([answer.status, answer.body]).to.deep.equal([200, "#!ipxe"]);
    expect(got).to.deep.equal([["/vendor_method?link=a.b", undefined]]);
  });

  it("forwards requests unchanged, and the leader's responses, too; answers health itself", async () => {
    const got: object[] = [];
    await api.lead((request, response) => {
      void bodyOf(request).then((body) => {
        const { method, url, headers } = request;
        got.push({ method, url, body, range: headers.range, type: headers["content-type"], own: headers["x-own"] });
        if (method === "POST") response.writeHead(302, { location: "/tasks/7" }).end();
        else response.writeHead(206, { "content-range": "bytes 5-6/7", "x-y": "z" }).end("ab");
      });
    });
    const headers = { "content-type": "text/yaml", connection: "close, content-length, x-own", "x-own": "1" };
    const posted = await http.send("POST", "/deployments?context=%7B%7D", { headers, body: "name: é" });
    expect([posted.status, posted.headers.location, posted.body]).to.deep.equal([302, "/tasks/7", ""]);
    const read = await http.send("GET", "/tasks/7/output?type=event", { headers: { range: "bytes=5-" } });
    expect([read.status, read.headers["content-range"], read.headers["x-y"], read.body]).to.deep.equal([
      206,
      "bytes 5-6/7",
      "z",
      "ab",
    ]);
    expect((await http.send("GET", "/info", { login: "" })).status).to.equal(206);
    expect(got.slice(0, 2)).to.deep.equal([
      {
        method: "POST",
        url: "/deployments?context=%7B%7D",
        body: "name: é",
        range: undefined,
        type: "text/yaml",
        own: "1",
      },
      {
        method: "GET",
        url: "/tasks/7/output?type=event",
        body: "",
        range: "bytes=5-",
        type: undefined,
        own: undefined,
      },
    ]);
    expect((await http.send("GET", "/readyz")).status).to.equal(503);
    expect(got).to.have.length(3);
  });

  it("streams a stemcell to the leader", async () => {
    let sizeBytes = 0;
    let onBegun = (): void => {};
    const begun = new Promise<void>((resolve) => {
      onBegun = resolve;
    });
    await api.lead((request, response) => {
      request.on("data", (piece: Buffer) => {
        sizeBytes += piece.length;
        onBegun();
      });
      request.on("end", () => response.writeHead(302, { location: "/tasks/1" }).end());
    });
    const authorization = `Basic ${Buffer.from("admin:p").toString("base64")}`;
    const headers = { authorization, "content-type": "application/x-compressed", "content-length": 2 ** 21 };
    const place = { host: "127.0.0.1", port: api.port, method: "POST", path: "/stemcells", headers, agent: false };
    const upload = httpsRequest({ ...place, ca: readFileSync(api.certs.files("operator").caFile) });
    const answered = new Promise<number | undefined>((resolve, reject) => {
      upload.once("response", (response) => resolve(response.statusCode));
      upload.once("error", reject);
    });
    upload.write(Buffer.alloc(2 ** 20));
    await begun;
    // The second half is sent only after the leader has received the first, so the standby must stream the body.
    upload.end(Buffer.alloc(2 ** 20));
    expect(await answered).to.equal(302);
    expect(sizeBytes).to.equal(2 ** 21);
  });

  it("between two leaders -> waits for the next leader", async () => {
    await api.lead(
      (request, response) => void bodyOf(request).then((body) => response.end(`${request.method} ${body}`)),
    );
    for (const [method, body] of [
      ["GET", ""],
      ["POST", "name: x"],
    ] as const) {
      // Two misses: the check whether this director leads, and the first search for the leader.
      api.missed = 2;
      const answer = await http.send(method, "/deployments", { body });
      expect([answer.status, answer.body]).to.deep.equal([200, `${method} ${body}`]);
    }
  });

  it("forwards no request with a wrong login", async () => {
    let asked = 0;
    await api.lead((_request, response) => {
      asked += 1;
      response.end();
    });
    expect((await http.send("GET", "/tasks", { login: "admin:wrong" })).status).to.equal(401);
    expect((await http.send("POST", "/stemcells", { login: "", body: "x" })).status).to.equal(401);
    expect(asked).to.equal(0);
  });

  it("forwards /info with a wrong login as without a login, and no unknown path", async () => {
    const got: (string | undefined)[] = [];
    await api.lead(({ url, headers }, response) => {
      got.push(`${url} ${headers.authorization === undefined ? "without" : "with"}`);
      response.end("{}");
    });
    for (const login of ["mallory:wrong", "nobody:x", ""])
      expect((await http.send("GET", "/info", { login })).status).to.equal(200);
    expect((await http.send("GET", "/info")).status).to.equal(200);
    const unknown = await http.send("GET", "/nothing/here?q=1", { login: "" });
    expect(unknown).to.include({ status: 404, body: "Endpoint '/nothing/here' not found." });
    expect(got).to.deep.equal(["/info without", "/info without", "/info without", "/info with"]);
  });

  it("too many wrong logins at /info -> 429 here, without a request to the leader", async () => {
    const got: (string | undefined)[] = [];
    await api.lead(({ headers }, response) => {
      got.push(headers.authorization);
      response.end("{}");
    });
    const statuses: number[] = [];
    // Repeated, because on a slow machine the first, short delays of the rate limiter may expire between two attempts.
    while (statuses.at(-1) !== 429 && statuses.length < 12)
      statuses.push((await http.send("GET", "/info", { login: "eve:wrong" })).status);
    const heard = Array.from({ length: Math.max(5, statuses.length - 1) });
    expect(statuses).to.deep.equal([...heard.map(() => 200), 429]);
    expect(got).to.deep.equal(heard);
  });

  it("the leader is unreachable, or is no director -> 503 with a retry", async () => {
    const refused = async () => {
      const answer = await http.send("GET", "/tasks");
      expect([answer.status, answer.headers["retry-after"]]).to.deep.equal([503, "1"]);
      return (JSON.parse(answer.body) as { description: string }).description;
    };
    expect(await refused()).to.match(/the leader did not answer: .*; try again/);
    let asked = 0;
    await api.lead(() => {
      asked += 1;
    }, api.certs.files("disk-agent-host-1"));
    expect(await refused()).to.match(/did not answer: .*; try again/);
    expect(asked).to.equal(0);
  });

  it("the leader dies in the middle -> 503 with an unknown outcome, or a response that breaks off", async () => {
    await api.lead((request, response) => {
      if (request.method === "POST") request.socket.destroy();
      else response.writeHead(200, { "content-length": "100" }).write("[", () => request.socket.destroy());
    });
    const cut = await http.send("POST", "/deployments", { body: "name: x" });
    expect(cut.status).to.equal(503);
    expect(cut.body).to.contain("whether the request took effect is not known");
    const half = await http.send("GET", "/tasks").catch((error: Error) => error);
    expect(half).to.be.instanceOf(Error);
  });

  it("forwards no request that was forwarded to it", async () => {
    api.leaderAddress = "127.0.0.1:7010";
    const answer = await http.send("GET", "/tasks");
    expect([answer.status, JSON.parse(answer.body).description]).to.deep.equal([503, "this director stands by"]);
  });
});
