import { join } from "node:path";
import { servedElsewhere, silentLogger } from "@diskmesh/domain";
import { hashPassword } from "@diskmesh/pki/password-hash";
import { freePort, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { directorConfig } from "../config.js";
import { HttpClient } from "../testing/http-client.js";
import { HttpServer } from "./http-server.js";

describe("the HTTPS face of a director that stands by", () => {
  it("lives, is not ready, and answers 503 with when to come again", async () => {
    const certs = await testCertificates();
    const port = await freePort();
    const config = directorConfig.parse({
      listen: { host: "127.0.0.1", port: 0 },
      tls: certs.files("director"),
      tablet: { storage: join(temporaryFolder(), "state") },
      dispatcher: { address: "127.0.0.1:1" },
      nats: { servers: ["127.0.0.1:2"] },
      http: { listen: { port }, users: [{ name: "admin", passwordHash: await hashPassword("p") }] },
    });
    if (config.http === undefined) throw new TypeError("no http");
    const current = (): never => {
      throw servedElsewhere("this director stands by", "127.0.0.1:7010");
    };
    const server = new HttpServer({ config, current, log: silentLogger }, config.http);
    await server.listen();
    try {
      const http = new HttpClient(certs, port, "admin:p");
      expect((await http.send("GET", "/healthz")).status).to.equal(200);
      expect((await http.send("GET", "/readyz")).status).to.equal(503);
      for (const path of ["/info", "/tasks", "/deployments/x", "/tasks/1"]) {
        const answer = await http.send("GET", path);
        expect(answer.status).to.equal(503);
        expect(answer.headers["retry-after"]).to.equal("1");
        expect(JSON.parse(answer.body)).to.deep.equal({ code: 100, description: "this director stands by" });
      }
      expect((await http.send("GET", "/tasks", { login: "admin:q" })).status).to.equal(401);
    } finally {
      await server.close();
    }
  });
});
