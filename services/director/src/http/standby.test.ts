import { readFileSync } from "node:fs";
import type { IncomingMessage, RequestListener } from "node:http";
import { createServer, request as httpsRequest, type Server } from "node:https";
import { join } from "node:path";
import { servedElsewhere, silentLogger } from "@diskmesh/domain";
import { hashPassword } from "@diskmesh/pki/password-hash";
import { freePort, type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { directorConfig } from "../config.js";
import { HttpClient } from "../testing/http-client.js";
import { HttpServer } from "./http-server.js";

/** Another address of this machine: both listen at one port, as directors on two machines do. */
const LEADER_HOST = "127.0.0.2";

describe("the HTTPS face of a director that stands by", () => {
  let certs: TestCertificates;
  let port: number;
  let server: HttpServer;
  let http: HttpClient;
  let leaderAddress: string;
  /** So often nobody is known to lead. */
  let missed = 0;
  let leader: Server | undefined;

  before(async () => {
    certs = await testCertificates({ hostIds: ["host-1"] });
    port = await freePort();
    const config = directorConfig.parse({
      listen: { host: "127.0.0.1", port: 0 },
      tls: certs.files("director"),
      tablet: { storage: join(temporaryFolder(), "state") },
      dispatcher: { address: "127.0.0.1:1" },
      nats: { servers: ["127.0.0.1:2"] },
      http: {
        listen: { port },
        leaderWaitMs: 1_000,
        users: [{ name: "admin", passwordHash: await hashPassword("p") }],
      },
    });
    if (config.http === undefined) throw new TypeError("no http");
    const current = (): never => {
      if (missed-- > 0) throw servedElsewhere("this director stands by");
      throw servedElsewhere("this director stands by", leaderAddress);
    };
    const whyNotReady = () => "it stands by";
    server = new HttpServer({ config, current, whyNotReady, log: silentLogger }, config.http);
    await server.listen();
    http = new HttpClient(certs, port, "admin:p");
  });
  after(() => server?.close());
  beforeEach(() => {
    leaderAddress = `${LEADER_HOST}:7010`;
  });
  afterEach(async () => {
    leader?.closeAllConnections();
    await new Promise<void>((resolve) => (leader === undefined ? resolve() : leader.close(() => resolve())));
    leader = undefined;
  });

  /** Somebody who answers where the leader's HTTPS face should be. */
  async function lead(listener: RequestListener, who: "director" | "disk-agent-host-1" = "director"): Promise<void> {
    const { certFile, keyFile } = certs.files(who);
    leader = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, listener);
    await new Promise<void>((resolve, reject) => {
      leader?.once("error", reject).listen(port, LEADER_HOST, resolve);
    });
  }

  async function bodyOf(request: IncomingMessage): Promise<string> {
    let text = "";
    for await (const piece of request) text += String(piece);
    return text;
  }

  it("knows no leader -> lives, is not ready, and answers 503 with when to come again", async () => {
    leaderAddress = "";
    expect((await http.send("GET", "/healthz")).status).to.equal(200);
    expect(await http.send("GET", "/readyz")).to.include({ status: 503, body: "it stands by\n" });
    for (const path of ["/info", "/tasks", "/deployments/x", "/tasks/1"]) {
      const answer = await http.send("GET", path);
      expect(answer.status).to.equal(503);
      expect(answer.headers["retry-after"]).to.equal("1");
      expect(JSON.parse(answer.body)).to.deep.equal({ code: 100, description: "this director stands by" });
    }
    expect((await http.send("GET", "/tasks", { login: "admin:q" })).status).to.equal(401);
  });

  it("passes requests on as they are, and the leader's answers back; health is its own", async () => {
    const got: object[] = [];
    await lead((request, response) => {
      void bodyOf(request).then((body) => {
        const { method, url, headers } = request;
        got.push({ method, url, body, range: headers.range, type: headers["content-type"], own: headers["x-own"] });
        if (method === "POST") response.writeHead(302, { location: "/tasks/7" }).end();
        else response.writeHead(206, { "content-range": "bytes 5-6/7", "x-y": "z" }).end("ab");
      });
    });
    const headers = { "content-type": "text/yaml", connection: "close, x-own", "x-own": "1" };
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
    expect((await http.send("GET", "/nothing/here")).status).to.equal(206);
    expect(got.slice(0, 2)).to.deep.equal([
      {
        method: "POST",
        url: "/deployments?context=%7B%7D",
        body: "name: é",
        range: undefined,
        type: "text/yaml",
        own: undefined,
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
    expect(got).to.have.length(4);
  });

  it("passes a stemcell on while it comes", async () => {
    let sizeBytes = 0;
    let onBegun = (): void => {};
    const begun = new Promise<void>((resolve) => {
      onBegun = resolve;
    });
    await lead((request, response) => {
      request.on("data", (piece: Buffer) => {
        sizeBytes += piece.length;
        onBegun();
      });
      request.on("end", () => response.writeHead(302, { location: "/tasks/1" }).end());
    });
    const authorization = `Basic ${Buffer.from("admin:p").toString("base64")}`;
    const headers = { authorization, "content-type": "application/x-compressed", "content-length": 2 ** 21 };
    const place = { host: "127.0.0.1", port, method: "POST", path: "/stemcells", headers, agent: false };
    const upload = httpsRequest({ ...place, ca: readFileSync(certs.files("operator").caFile) });
    const answered = new Promise<number | undefined>((resolve, reject) => {
      upload.once("response", (response) => resolve(response.statusCode));
      upload.once("error", reject);
    });
    upload.write(Buffer.alloc(2 ** 20));
    await begun;
    // Only now the rest: the first half was not kept until all had come.
    upload.end(Buffer.alloc(2 ** 20));
    expect(await answered).to.equal(302);
    expect(sizeBytes).to.equal(2 ** 21);
  });

  it("between two leaders -> waits for the next one", async () => {
    await lead((request, response) => void bodyOf(request).then((body) => response.end(`${request.method} ${body}`)));
    for (const [method, body] of [
      ["GET", ""],
      ["POST", "name: x"],
    ] as const) {
      // The first is the question whether this one leads.
      missed = 2;
      const answer = await http.send(method, "/deployments", { body });
      expect([answer.status, answer.body]).to.deep.equal([200, `${method} ${body}`]);
    }
  });

  it("asks the leader nothing for a wrong login", async () => {
    let asked = 0;
    await lead((_request, response) => {
      asked += 1;
      response.end();
    });
    expect((await http.send("GET", "/tasks", { login: "admin:wrong" })).status).to.equal(401);
    expect((await http.send("POST", "/stemcells", { login: "", body: "x" })).status).to.equal(401);
    expect(asked).to.equal(0);
  });

  it("the leader is not there, or is nobody's director -> 503: try again", async () => {
    const refused = async () => {
      const answer = await http.send("GET", "/tasks");
      expect([answer.status, answer.headers["retry-after"]]).to.deep.equal([503, "1"]);
      return (JSON.parse(answer.body) as { description: string }).description;
    };
    expect(await refused()).to.match(/the one that leads did not answer: .*; try again/);
    let asked = 0;
    await lead(() => {
      asked += 1;
    }, "disk-agent-host-1");
    expect(await refused()).to.match(/did not answer: .*; try again/);
    expect(asked).to.equal(0);
  });

  it("the leader dies in the middle -> 503 that says that it may have taken effect, or an answer that ends early", async () => {
    await lead((request, response) => {
      if (request.method === "POST") request.socket.destroy();
      else response.writeHead(200, { "content-length": "100" }).write("[", () => request.socket.destroy());
    });
    const cut = await http.send("POST", "/deployments", { body: "name: x" });
    expect(cut.status).to.equal(503);
    expect(cut.body).to.contain("whether the request took effect is not known");
    const half = await http.send("GET", "/tasks").catch((error: Error) => error);
    expect(half).to.be.instanceOf(Error);
  });

  it("passes on nothing that was passed on to it", async () => {
    leaderAddress = "127.0.0.1:7010";
    const answer = await http.send("GET", "/tasks");
    expect([answer.status, JSON.parse(answer.body).description]).to.deep.equal([503, "this director stands by"]);
  });
});
