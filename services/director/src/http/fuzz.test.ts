import { connect, type TLSSocket } from "node:tls";
import { expect } from "chai";
import { type HttpDirector, startHttpDirector } from "../testing/http-director.js";
import { allRoutes } from "./routes.js";

/** `DISKMESH_HTTP_FUZZ_REQUESTS` of them for a long run; the same ones each time. */
const REQUESTS = Number(process.env.DISKMESH_HTTP_FUZZ_REQUESTS ?? 600);
const PER_CONNECTION = 20;

const METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "PROPFIND", "get", "X\x00", ""];
const PIECES = [
  "%",
  "%00",
  "%zz",
  "%ff",
  "..",
  "/",
  "//",
  "\\",
  "?",
  "&",
  "=",
  ";",
  "#",
  "é",
  "%F0%9F",
  "[]",
  "*",
  ":id",
  "-1",
  "0",
  "1",
  "99999999999999999999",
  "NaN",
  "a".repeat(3_000),
  "__proto__",
  "constructor",
  "$(x)",
];
const BODIES = [
  "",
  "{",
  "{}",
  "[]",
  "null",
  '"x"',
  "1e999",
  '{"__proto__":{"a":1}}',
  '{"disk_name":{"$gt":""}}',
  '{"disk_size":-1}',
  "[".repeat(5_000),
  "\xff\xfe",
  "---\n- &a [*a]",
  "a: &x [*x, *x]",
  "name: ../../x",
  '{"config":null,"states":[1]}',
  "\x1f\x8b\x08",
];
const TYPES = [
  "application/json",
  "text/yaml",
  "application/x-compressed",
  "multipart/form-data",
  "multipart/form-data; boundary=x",
  "x",
  "a/b; charset=utf-16",
  ";",
  "\x00",
];
const RANGES = [
  "bytes=0-",
  "bytes=5-1",
  "bytes=-5",
  "bytes=99999999999999999999-",
  "bytes=a-b",
  "bytes=0-1,2-3",
  "lines=1-2",
  "bytes=",
  "bytes=0-\x00",
];
const LOGINS = [
  "Basic",
  "Basic !!!!",
  `Basic ${"A".repeat(4_000)}`,
  "Bearer",
  "Bearer a.b.c",
  "Digest x=y",
  "\x00",
  "basic  Og==",
];

/** Numbers that only look like chance. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

describe("malformed requests over HTTPS", () => {
  let mesh: HttpDirector;

  before(async () => {
    mesh = await startHttpDirector({ requestTimeoutMs: 1_500, headersTimeoutMs: 1_500 }, { log: { level: "warn" } });
    await mesh.http.send("GET", "/tasks");
  });
  after(() => mesh?.director.stop());

  it("of a fixed seed -> no 500, no bug in the log, and it goes on serving", async function () {
    this.timeout(60_000 + REQUESTS * 50);
    const below = numbers(20_261_122);
    const statuses = new Map<string, number>();
    for (let sent = 0; sent < REQUESTS; sent += PER_CONNECTION) {
      const requests = Array.from({ length: PER_CONNECTION }, () => malformed(below));
      for (const status of await answersTo(requests)) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    const bugs = mesh.director.process.logs.split("\n").filter((line) => /"level":"?(error|50)/.test(line));
    expect(bugs.join("\n")).to.equal("");
    expect([...statuses.keys()].filter((status) => Number(status) >= 500 && status !== "501")).to.deep.equal([]);
    expect(statuses.size).to.be.above(4);
    expect((await mesh.http.send("GET", "/tasks")).status).to.equal(200);
  });

  function malformed(below: (count: number) => number): Buffer {
    const pick = (of: readonly string[]): string => of[below(of.length)] ?? "";
    const route = allRoutes[below(allRoutes.length)];
    const parts = (route?.path ?? "/")
      .split("/")
      .map((part) => (part.startsWith(":") || below(12) === 0 ? pick(PIECES) : part));
    const method = below(4) === 0 ? pick(METHODS) : (route?.method ?? "GET");
    const query =
      below(2) === 0
        ? ""
        : `?${pick(["type", "limit", "state", "verbose", "name", "deployment", "id", "x"])}=${pick(PIECES)}`;
    const body = Buffer.from(pick(BODIES), "latin1");
    const login = below(8) === 0 ? pick(LOGINS) : `Basic ${Buffer.from("admin:pw-admin").toString("base64")}`;
    const lines = [
      `${method} ${parts.join("/")}${query} HTTP/1.${below(20) === 0 ? "7" : "1"}`,
      "Host: x",
      `Authorization: ${login}`,
    ];
    if (below(2) === 0) lines.push(`Content-Type: ${pick(TYPES)}`);
    if (below(3) === 0) lines.push(`Range: ${pick(RANGES)}`);
    if (below(10) > 0) lines.push(`Content-Length: ${below(15) === 0 ? body.length + 1 : body.length}`);
    else lines.push(`Transfer-Encoding: ${pick(["chunked", "gzip", "x"])}`);
    if (below(15) === 0)
      lines.push(
        pick([
          ":",
          "a b: c",
          "Content-Length: 3",
          "Expect: 200-ok",
          "Upgrade: h2c",
          `X-Bosh-Context-Id: ${"x".repeat(80)}`,
        ]),
      );
    return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), body]);
  }

  /** The statuses of what was sent over one connection after the other: each is used until it is ended. */
  async function answersTo(requests: Buffer[]): Promise<string[]> {
    const statuses: string[] = [];
    await Promise.all(requests.map(async (request) => statuses.push(await answerTo(request))));
    return statuses;
  }

  function answerTo(request: Buffer): Promise<string> {
    return new Promise((resolve) => {
      let heard = "";
      const socket: TLSSocket = connect({ port: mesh.http.port, host: "127.0.0.1", rejectUnauthorized: false }, () =>
        socket.end(request),
      );
      socket.setEncoding("latin1");
      socket.on("data", (text: string) => {
        heard += text.slice(0, 4_096);
        if (heard.includes("\r\n\r\n")) socket.destroy();
      });
      socket.on("error", () => {});
      socket.on("close", () => resolve(/^HTTP\/1\.1 (\d{3})/.exec(heard)?.[1] ?? "closed"));
    });
  }
});
