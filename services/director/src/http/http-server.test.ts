import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "node:tls";
import { gzipSync } from "node:zlib";
import { issueCertificate } from "@diskmesh/pki";
import { Readiness } from "@diskmesh/service";
import { eventually, freePort, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { directorConfig } from "../config/config.js";
import { httpConfig } from "../config/http-config.js";
import type { HttpClient } from "../testing/http-client.js";
import { type HttpDirector, httpUsers, startHttpDirector } from "../testing/http-director.js";
import type { Context } from "./context.js";
import { HttpServer } from "./http-server.js";
import { allRoutes } from "./routes/routes.js";

describe("the HTTPS API", () => {
  let mesh: HttpDirector;
  let http: HttpClient;

  /** TLS files of the HTTPS API; tests replace them. */
  let tls: { readonly certFile: string; readonly keyFile: string };

  before(async () => {
    const folder = temporaryFolder();
    tls = { certFile: join(folder, "tls.crt"), keyFile: join(folder, "tls.key") };
    const { certFile, keyFile } = (await testCertificates()).files("director");
    copyFileSync(certFile, tls.certFile);
    copyFileSync(keyFile, tls.keyFile);
    mesh = await startHttpDirector({ tls });
    ({ http } = mesh);
  });
  after(() => mesh?.director.stop());

  it("info -> without login no user, with a login its name, with a wrong login no user", async () => {
    const info = async (login: string) => JSON.parse((await http.send("GET", "/info", { login })).body);
    const anonymous = await info("");
    expect(anonymous).to.include({ user: null, name: "diskmesh" });
    expect(anonymous.uuid).to.match(/^[\w-]+$/);
    expect(anonymous.user_authentication).to.deep.equal({ type: "basic", options: {} });
    expect(anonymous.features.dynamic_disks).to.deep.equal({ status: true });
    expect(await info("admin:pw-admin")).to.include({ user: "admin", uuid: anonymous.uuid });
    expect(await info("admin:wrong")).to.include({ user: null });
  });

  it("health and readiness -> answered without a login", async () => {
    expect(await http.send("GET", "/healthz", { login: "" })).to.include({ status: 200, body: "ok\n" });
    // Ready once the dispatcher accepts the director.
    await eventually(async () =>
      expect(await http.send("GET", "/readyz", { login: "" })).to.include({ status: 200, body: "ok\n" }),
    );
  });

  it("every answer -> tells browsers to use only HTTPS with this host", async () => {
    const paths = ["/healthz", "/info", "/page", "/page/files/page.js", "/tasks", "/tasks/999999", "/nothing/here"];
    for (const path of paths)
      for (const login of ["", "admin:pw-admin"]) {
        const { headers } = await http.send("GET", path, { login });
        expect(headers["strict-transport-security"], path).to.equal("max-age=31536000");
      }
  });

  it("no login, a wrong login, another scheme -> 401 with BOSH's message", async () => {
    const wrong: Record<string, string>[] = [
      {},
      { authorization: "Basic YWRtaW46eA==" },
      { authorization: "Bearer x.y.z" },
      { authorization: "x" },
    ];
    for (const headers of wrong) {
      const answer = await http.send("GET", "/tasks?x=secret", { login: "", headers });
      expect(answer).to.include({ status: 401, body: "Not authorized: '/tasks'\n" });
      expect(answer.headers["www-authenticate"]).to.equal('Basic realm="BOSH Director"');
    }
  });

  it("a login without the scope -> 401 with the sufficient scopes", async () => {
    const answer = await mesh.as("nobody").send("POST", "/dynamic_disks/provide", { body: "{}" });
    const { uuid } = JSON.parse((await http.send("GET", "/info")).body);
    expect(answer.status).to.equal(401);
    expect(JSON.parse(answer.body)).to.deep.equal({
      code: 600_000,
      description: `Require one of the scopes: bosh.admin, bosh.${uuid}.admin, (bosh.dynamic-disks.create AND bosh.dynamic-disks.attach)`,
    });
  });

  it("each refusal is logged, and no password is", async () => {
    await http.send("GET", "/tasks", { login: "admin:not-the-password-7" });
    const told = mesh.director.process.logs;
    expect(told).to.match(/"audit":"refused".*"route":"\/tasks"|"route":"\/tasks".*"audit":"refused"/);
    expect(told).not.to.contain("not-the-password-7");
    expect(told).not.to.contain(Buffer.from("admin:not-the-password-7").toString("base64"));
  });

  it("a renewed certificate -> used from the next connection on", async () => {
    const read = (name: string) => readFileSync(join(mesh.director.certs.folder, name), "utf8");
    const made = await issueCertificate(
      { certPem: read("ca.pem"), keyPem: read("ca-key.pem") },
      {
        identity: { role: "director", name: "" },
        commonName: "director",
        dnsNames: ["localhost"],
        ipAddresses: ["127.0.0.1"],
        validDays: 1,
        usages: ["server"],
      },
    );
    writeFileSync(tls.keyFile, made.keyPem);
    writeFileSync(tls.certFile, made.certPem);
    const { serialNumber } = new X509Certificate(made.certPem);
    await eventually(async () => {
      const socket = connect({ port: http.port, host: "127.0.0.1", rejectUnauthorized: false });
      await once(socket, "secureConnect");
      const shown = socket.getPeerX509Certificate()?.serialNumber;
      socket.destroy();
      expect(shown).to.equal(serialNumber);
    });
    expect((await http.send("GET", "/healthz")).status).to.equal(200);
  });

  it("an unknown route -> 404 with BOSH's message", async () => {
    const answer = await http.send("GET", "/nothing/here?q=1");
    expect(answer).to.include({ status: 404, body: "Endpoint '/nothing/here' not found." });
  });

  it("an unreadable request -> 4xx, and the server keeps running", async () => {
    expect((await http.send("POST", "/dynamic_disks/provide", { body: "{" })).body).to.contain('"code":710001');
    const headers = { "content-type": "application/json" };
    const noText = { headers, body: Buffer.from([0xff, 0xfe]) };
    expect((await http.send("POST", "/dynamic_disks/provide", noText)).status).to.equal(400);
    expect((await http.send("GET", "/tasks/%zz")).status).to.equal(400);
    const long = { headers, body: Buffer.alloc(5 * 1024 * 1024, "x") };
    const tooLong = await http.send("POST", "/dynamic_disks/provide", long).catch((error: Error) => error.message);
    if (typeof tooLong !== "string") expect(tooLong.status).to.equal(413);
    expect((await http.send("GET", "/tasks", { headers: { "x-long": "y".repeat(20_000) } })).status).to.equal(431);
    expect((await http.send("GET", "/healthz")).status).to.equal(200);
  });

  it("a body that breaks off while it is streamed -> 499 in the log, and no bug", async () => {
    const authorization = Buffer.from("admin:pw-admin").toString("base64");
    const told = () => mesh.director.process.logs.split("\n").filter((line) => line.includes('"route":"/stemcells"'));
    const head = `POST /stemcells HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ${authorization}\r\n`;
    // Bodies that are valid up to the point where they break off.
    const begun: [type: string, bytes: string | Buffer][] = [
      ["application/json", '{"location":'],
      ["application/x-compressed", gzipSync("").subarray(0, 10)],
    ];
    for (const [type, bytes] of begun) {
      const before = told().length;
      const socket = connect({ port: http.port, host: "127.0.0.1", rejectUnauthorized: false }, () => {
        // The response 100-continue shows that the route reads the body.
        socket.write(`${head}Content-Type: ${type}\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n`);
        socket.once("data", () => socket.write(bytes, () => socket.destroy()));
      });
      await eventually(() => expect(told()).to.have.length(before + 1));
      expect(JSON.parse(told().at(-1) ?? "")).to.include({ level: "info", status: 499 });
    }
  });

  describe("with short timeouts", () => {
    // Set for these tests only, because other requests may take longer on a busy machine.
    before(async () => {
      await mesh.director.restartTuned({ http: { headersTimeoutMs: 1_000, requestTimeoutMs: 2_000 } });
    });

    it("a slow body -> the connection is closed", async () => {
      const authorization = Buffer.from("admin:pw-admin").toString("base64");
      const head = `POST /dynamic_disks/provide HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ${authorization}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`;
      await closedAfter(head);
    });

    it("headers without an end -> the connection is closed", () => closedAfter("GET /info HTTP/1.1\r\nHost: x\r\n"));
  });

  function closedAfter(bytes: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port: http.port, host: "127.0.0.1", rejectUnauthorized: false }, () =>
        socket.write(bytes),
      );
      socket.on("error", reject);
      socket.on("close", () => resolve());
      socket.resume();
    });
  }
});

describe("a client that disconnects", () => {
  for (const when of ["before its login is looked at", "while its list is made"])
    it(`${when} -> 499 in the log, and no bug`, () => leaving(when));

  async function leaving(when: string): Promise<void> {
    const certs = await testCertificates({ hostIds: [] });
    const port = await freePort();
    const http = { listen: { port }, users: await httpUsers({ admin: ["bosh.admin"] }) };
    const lines: { level: string; fields: object }[] = [];
    const line = (level: string) => (fields: object) => void lines.push({ level, fields });
    const log = { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
    const client = { leave: () => {} };
    const server = new HttpServer(
      {
        config: directorConfig.parse({
          listen: { host: "127.0.0.1", port: 0 },
          tls: certs.files("director"),
          tablet: { storage: "/nowhere" },
          dispatcher: { address: "127.0.0.1:1" },
          nats: { servers: ["127.0.0.1:1"] },
          http,
        }),
        current: () => {
          if (when === "before its login is looked at") client.leave();
          return contextWith(() => client.leave());
        },
        report: () => new Readiness({ needs: [], log }).report(),
        routes: allRoutes,
        log,
      },
      httpConfig.parse(http),
    );
    await server.listen();
    try {
      const authorization = Buffer.from("admin:pw-admin").toString("base64");
      const tcp = connectTcp({ port, host: "127.0.0.1" });
      const socket = connect({ socket: tcp, rejectUnauthorized: false }, () =>
        socket.write(
          // The body is complete, so the later reset does not count as an interrupted upload.
          `GET /events?user=none HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ${authorization}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`,
        ),
      );
      socket.on("error", () => {});
      client.leave = () => {
        if (!tcp.destroyed) tcp.resetAndDestroy();
        socket.destroy();
      };
      await eventually(async () => {
        const failed = lines.filter(({ fields }) => "status" in fields);
        expect(failed.map(({ level, fields }) => [level, (fields as { status: number }).status])).to.deep.equal([
          ["info", 499],
        ]);
      });
    } finally {
      await server.close();
    }
  }

  /** Returns a context whose list of events goes on after the client has disconnected. */
  function contextWith(leave: () => void): Context {
    const bounds = async () => {
      leave();
      return { first: 0, next: 1_000 };
    };
    // Lets the server see the end of the connection between any two reads.
    const readBelow = (index: number) => delay(5, [{ eventId: index, deployment: "" }]);
    const tablet = { id: "some", read: async () => [] };
    return { tablet, events: { bounds, readBelow } } as unknown as Context;
  }
});

describe("failed logins", () => {
  it("too many of a name from an address -> 429; a login that succeeded recently and other names still work", async () => {
    const { director, http } = await startHttpDirector();
    try {
      expect((await http.send("GET", "/tasks")).status).to.equal(200);
      // Repeated, because on a slow machine the first, short delays of the rate limiter may expire between two
      // attempts.
      const answer = await eventually(async () => {
        const refused = await http.send("GET", "/tasks", { login: "admin:wrong" });
        expect(refused.status).to.equal(429);
        return refused;
      });
      expect(Number(answer.headers["retry-after"])).to.be.within(1, 60);
      expect((await http.send("GET", "/tasks")).status).to.equal(200);
      expect((await http.send("GET", "/tasks", { login: "reader:pw-reader" })).status).to.equal(200);
    } finally {
      await director.stop();
    }
  });
});
