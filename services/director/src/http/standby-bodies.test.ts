import { freePort } from "@diskmesh/testkit";
import { expect } from "chai";
import { type HttpDirector, httpUsers, startHttpDirector } from "../testing/http-director.js";
import { basic, rawAnswer } from "../testing/raw-request.js";
import { StandbyApi } from "../testing/standby-api.js";

const LEADER_HOST = "127.0.0.2";
const VERBS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
const PATHS = ["/v1/nodes/host-1/vendor_passthru/none", "/v1/nodes/host-1/vendor_passthru", "/configs", "/tasks"];
const SMUGGLED = "DELETE /configs?type=mine&name=kept HTTP/1.1\r\nHost: x\r\n\r\n";

const chunked = (...pieces: string[]): string =>
  `Transfer-Encoding: chunked\r\n\r\n${pieces.map((piece) => `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`).join("")}0\r\n\r\n`;
const sized = (body: string): string => `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const LONG = JSON.stringify({ text: "x".repeat(300_000) });

/** The end of a request's headers and its body. */
const BODIES: Readonly<Record<string, string>> = {
  "no body": "\r\n",
  "an empty body": sized(""),
  "a short body": sized('{"a":1}'),
  "a long body": sized(LONG),
  "an empty chunked body": chunked(),
  "a short chunked body": chunked('{"a"', ":1}"),
  "a long chunked body": chunked(LONG.slice(0, 100_000), LONG.slice(100_000)),
  "a chunked body that reads as a request": chunked(SMUGGLED),
  "a body whose length its Connection header names": `Connection: close, content-length\r\n${sized(SMUGGLED)}`,
};

describe("request bodies through a standby director", () => {
  let leader: HttpDirector;
  let standby: StandbyApi;

  before(async () => {
    const port = await freePort();
    leader = await startHttpDirector({ listen: { host: LEADER_HOST, port } });
    const users = await httpUsers({ admin: ["bosh.admin"] });
    standby = await StandbyApi.start({ users }, { port, certs: leader.director.certs });
    const kept = { type: "mine", name: "kept", content: "a: 1" };
    await leader.director.configs.updateConfig(kept);
  });
  after(async () => {
    await standby?.stop();
    await leader?.director.stop();
  });

  /** Returns status and body without the parts that differ between any two responses. */
  async function answerAt(host: string, head: string, body: string): Promise<string> {
    const lines = `${head} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic("admin:pw-admin")}\r\nContent-Type: application/json\r\n`;
    const close = body.startsWith("Connection:") ? "" : "Connection: close\r\n";
    const place = { certs: leader.director.certs, host, port: standby.port };
    const [answerHead = "", ...rest] = (await rawAnswer(place, lines + close + body)).split("\r\n\r\n");
    const text = rest.join("\r\n\r\n").replace(/^[\da-f]+\r\n|\r\n[\da-f]+(?=\r\n)|\r\n/g, "");
    return `${answerHead.split("\r\n", 1)[0]} ${text}`;
  }

  for (const [name, body] of Object.entries(BODIES))
    it(`a standby answers ${name} as the leader does, for every verb`, async () => {
      for (const verb of VERBS)
        for (const path of PATHS) {
          const head = `${verb} ${path}`;
          const expected = await answerAt(LEADER_HOST, head, body);
          expect(expected, head).to.match(/^HTTP\/1.1 [245]/);
          expect(await answerAt("127.0.0.1", head, body), head).to.equal(expected);
        }
      const { configs } = await leader.director.configs.listConfigs({ type: "mine", name: "kept" });
      expect(configs).to.have.length(1);
    });
});
