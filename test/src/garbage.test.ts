import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { connect } from "node:tls";
import type { HttpClient } from "@diskmesh/director/testing";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { connectNats } from "@diskmesh/mbus";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { ADMIN, wholeFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";

const HOST = "host-1";
const CONNECT_TIMEOUT_MS = 60_000;
/** Time in ms for which a connection stays open when the server waits for more. */
const STAY_MS = 300;

const SERVICES = ["director", "cpi-dispatcher", "disk-registry", HOST] as const;
const [DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION] = [0, 1, 3, 4, 6, 9];
const [END_STREAM, END_HEADERS] = [1, 4];
const NOTHING = Buffer.alloc(0);

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Encodes a header field without indexing and Huffman coding; both texts must be below 127 bytes. */
function field(name: string, value: string): Buffer {
  const text = (one: string) => Buffer.concat([Buffer.from([one.length]), Buffer.from(one)]);
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}

function call(path: string): Buffer {
  const own = { ":method": "POST", ":scheme": "https", ":authority": "localhost", ":path": path, te: "trailers" };
  const fields = { ...own, "content-type": "application/grpc" };
  return Buffer.concat(Object.entries(fields).map(([name, value]) => field(name, value)));
}

const repeated = (times: number, make: (stream: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: times }, (_, index) => make(2 * index + 1)));
const HEALTH = call("/grpc.health.v1.Health/Check");
const CANCEL = Buffer.from([0, 0, 0, 8]);
const OPENING = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(SETTINGS, 0, 0, NOTHING)]);
const opened = (bytes: Buffer): Buffer => Buffer.concat([OPENING, bytes]);
const healthWith = (message: Buffer): Buffer =>
  opened(Buffer.concat([frame(HEADERS, END_HEADERS, 1, HEALTH), frame(DATA, END_STREAM, 1, message)]));

/** Bytes in place of a TLS handshake. */
const RAW: readonly (readonly [string, Buffer])[] = [
  ["nothing", NOTHING],
  ["HTTP without TLS", Buffer.from("GET / HTTP/1.1\r\n\r\n")],
  ["random bytes", randomBytes(20_000)],
  ["half a ClientHello", Buffer.from("16030102000100", "hex")],
  ["an empty handshake record", Buffer.from("1603010000", "hex")],
];

/** Bytes of an operator over TLS. */
const HTTP2: readonly (readonly [string, Buffer])[] = [
  ["no preface", Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n")],
  ["settings of a wrong length", opened(frame(SETTINGS, 0, 0, Buffer.alloc(5)))],
  ["data on no stream", opened(frame(DATA, 0, 0, Buffer.alloc(5)))],
  ["a frame beyond the limit", opened(frame(DATA, 0, 1, Buffer.alloc(16_385)))],
  ["a frame of no type", opened(frame(0xee, 0xff, 7, Buffer.alloc(20)))],
  ["headers that are no HPACK", opened(frame(HEADERS, END_HEADERS, 1, Buffer.alloc(30, 0xff)))],
  [
    "continuations without end",
    opened(
      Buffer.concat([
        frame(HEADERS, 0, 1, HEALTH),
        repeated(1_000, () => frame(CONTINUATION, 0, 1, field("x", "v".repeat(100)))),
      ]),
    ),
  ],
  ["a flood of pings", opened(repeated(5_000, () => frame(PING, 0, 0, Buffer.alloc(8))))],
  [
    "streams that are reset at once",
    opened(
      repeated(1_000, (stream) =>
        Buffer.concat([frame(HEADERS, END_HEADERS, stream, HEALTH), frame(RST_STREAM, 0, stream, CANCEL)]),
      ),
    ),
  ],
  ["a message shorter than it says", healthWith(Buffer.from([0, 0xff, 0xff, 0xff, 0xff]))],
  ["a message compressed in no known way", healthWith(Buffer.from([1, 0, 0, 0, 1, 7]))],
  ["a message that is no protobuf", healthWith(Buffer.from([0, 0, 0, 0, 2, 0xff, 0xff]))],
];

const HTTPS: readonly (readonly [string, Buffer])[] = [
  ["HTTP/2", OPENING],
  ["a method with NUL", Buffer.from("G\0T /info HTTP/1.1\r\nHost: x\r\n\r\n")],
  ["a negative length", Buffer.from("POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}")],
  ["two lengths", Buffer.from("POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}")],
  ["a chunk of no size", Buffer.from("POST /tasks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")],
  ["an unknown upgrade", Buffer.from("GET /info HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")],
  ["a path that is no text", Buffer.from("GET /tasks/%ff%zz?%=%&limit=1e999 HTTP/1.1\r\nHost: x\r\n\r\n")],
  ["pipelined requests", repeated(100, () => Buffer.from("GET /info HTTP/1.1\r\nHost: x\r\n\r\n"))],
];

const MESSAGES: readonly Buffer[] = [
  NOTHING,
  randomBytes(1_000),
  Buffer.from("[".repeat(100_000)),
  ...[null, [], {}, { method: "get_task", reply_to: `director.d.${HOST}.1`, arguments: [{}] }].map((value) =>
    Buffer.from(JSON.stringify(value)),
  ),
];

/**
 * Real processes, because a failure here is the end of a process, or of its answers to all others. What the gRPC server
 * answers to reset calls and to reflection is in packages/rpc.
 */
describe("garbage on every socket of a mesh", function () {
  this.timeout(300_000);
  let mesh: TestMesh;
  let http: HttpClient;
  let exportPath: string;

  before(async function () {
    leaveToVerify(this);
    const hosts = { hosts: 1, devicesPerHost: 1, deviceSizeBytes: MIB_BYTES };
    mesh = await TestMesh.start(wholeFleet({ ...hosts, httpUsers: ADMIN }));
    http = mesh.http();
    const { registry } = mesh.clients;
    await registry.addHost({ hostId: HOST });
    await eventually(async () => !(await mesh.device(`${HOST}-device-1`)).dirty);
    await registry.createDisk({ diskId: "d", sizeBytes: MIB_BYTES, hostId: HOST });
    const { disk } = await registry.publishDisk({ diskId: "d", hostId: HOST });
    exportPath = disk?.publication?.exportPath ?? "";
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  /** Fails unless all processes run, have found no bug, and answer other clients. */
  async function expectUnharmed(what: string): Promise<void> {
    for (const [name, { exit, logs }] of mesh.processes) {
      expect(exit, `${name} after ${what}`).to.equal(undefined);
      expect(logs, `${name} after ${what}`).not.to.contain('"level":"error"');
    }
    const { registry, tasks, cpis } = mesh.clients;
    await Promise.all([registry.listHosts({}), tasks.listTasks({}), cpis.listCpis({})]);
    await mesh.agentClient(HOST).listDevices({});
    expect((await http.send("GET", "/tasks")).status, what).to.equal(200);
    const disk = await NbdClient.connect({ socketPath: exportPath });
    expect(await disk.read(0, 512), what).to.have.length(512);
    await disk.disconnect();
  }

  /** Sends the bytes, and waits until the server has closed the connection, or has read them and waits for more. */
  async function send(socket: Socket, event: "connect" | "secureConnect", bytes: Buffer) {
    socket.on("error", () => {}).resume();
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    await Promise.race([closed, new Promise<void>((resolve) => socket.once(event, () => resolve()))]);
    if (!socket.destroyed) socket.write(bytes);
    const timer = setTimeout(() => socket.destroy(), STAY_MS);
    await closed;
    clearTimeout(timer);
  }

  const tcpTo = (name: string) => createConnection(mesh.listen(name));
  function operatorTo(name: string): Socket {
    const { certFile, keyFile } = mesh.operatorFiles;
    const [cert, key] = [readFileSync(certFile), readFileSync(keyFile)];
    return connect({ ...mesh.listen(name), cert, key, ALPNProtocols: ["h2"], rejectUnauthorized: false });
  }

  for (const name of SERVICES) {
    it(`${name} in place of TLS`, async () => {
      await Promise.all(RAW.map(([, bytes]) => send(tcpTo(name), "connect", bytes)));
      await expectUnharmed("bytes that are no TLS");
    });

    it(`${name} in place of HTTP/2 and of messages`, async () => {
      for (const [what, bytes] of HTTP2) {
        await send(operatorTo(name), "secureConnect", bytes);
        await expectUnharmed(what);
      }
    });
  }

  it("the director's HTTPS server in place of TLS and of requests", async () => {
    await Promise.all(RAW.map(([, bytes]) => send(createConnection(http.port), "connect", bytes)));
    for (const [what, bytes] of HTTPS) {
      await send(connect({ port: http.port, rejectUnauthorized: false }), "secureConnect", bytes);
      await expectUnharmed(what);
    }
  });

  it("an agent's NBD socket", async () => {
    for (const bytes of [...RAW.map(([, raw]) => raw), Buffer.concat([Buffer.from([0, 0, 0, 3]), randomBytes(9_000)])])
      await send(createConnection(exportPath), "connect", bytes);
    await expectUnharmed("bytes that are no NBD");
  });

  it("NATS as a director and as an agent", async () => {
    for (const [role, ...subjects] of [
      ["director", `agent.${HOST}`],
      [`disk-agent-${HOST}`, `hm.agent.heartbeat.${HOST}`, `hm.agent.alert.${HOST}`, `director.d.${HOST}.1`],
    ] as const) {
      const tls = mesh.certificates.files(role);
      const nats = await connectNats({ servers: [mesh.address("nats")], tls, name: "garbage" });
      await nats.whenConnected(AbortSignal.timeout(CONNECT_TIMEOUT_MS));
      for (const subject of subjects) for (const data of MESSAGES) nats.publish(subject, data);
      await nats.close();
    }
    await eventually(() => /malformed NATS request dropped/.test(mesh.process(HOST).logs));
    await eventually(() => /malformed agent message dropped/.test(mesh.process("director").logs));
    await expectUnharmed("messages that are no JSON");
  });
});
