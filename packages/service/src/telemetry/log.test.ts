import { setTimeout } from "node:timers/promises";
import { NotFoundError, PermissionDeniedError, Redactor, TimeoutError } from "@diskmesh/domain";
import { expect } from "chai";
import { rpcLogging } from "../serving/rpc-logging.js";
import { createLogger } from "./log.js";

describe("createLogger", () => {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => lines.push(JSON.parse(line)) };
  const log = createLogger({ service: "disk-registry", level: "info", destination });
  beforeEach(() => {
    lines.length = 0;
  });

  it("writes one JSON object per line, with service, time and level by name", () => {
    log.info({ hostId: "host-1" }, "attached\nlevel: fake");
    log.debug({}, "not at this level");
    expect(lines).to.have.length(1);
    expect(lines[0]).to.include({
      level: "info",
      service: "disk-registry",
      hostId: "host-1",
      message: "attached\nlevel: fake",
    });
    expect(Date.parse(String(lines[0]?.time))).to.be.closeTo(Date.now(), 5000);
  });

  it("keeps the alerts that lines begin, until other lines end them, at any level", () => {
    const redactor = new Redactor(["hunter22"]);
    const silent = createLogger({ service: "s", level: "silent", destination, redactor });
    let changes = 0;
    silent.alerts.onChange(() => changes++);
    const names = () => [...silent.alerts.current.keys()];
    silent.warn({ reason: "none" }, "no alert");
    silent.error({ alert: "memory" }, "full, password hunter22");
    const { sinceMs } = silent.alerts.current.get("memory") ?? {};
    silent.warn({ alert: "tls_files", alertOf: "/a" }, "torn");
    silent.warn({ alert: "tls_files", alertOf: "/b" }, "torn");
    silent.error({ alert: "memory" }, "fuller");
    expect(names()).to.deep.equal(["memory", "tls_files /a", "tls_files /b"]);
    expect(silent.alerts.current.get("memory")).to.deep.equal({ why: "fuller", sinceMs });
    silent.error({ alert: "store_edited" }, "password hunter22");
    expect(silent.alerts.current.get("store_edited")?.why).not.to.include("hunter22");
    silent.info({ alertEnded: "tls_files", alertOf: "/a" }, "whole");
    silent.info({ alertEnded: "descriptors" }, "nothing");
    expect(names()).to.deep.equal(["memory", "tls_files /b", "store_edited"]);
    expect(changes).to.equal(6);
    for (let count = 0; count < 100; count++) silent.warn({ alert: "not_resurrected", alertOf: count }, "one of many");
    expect(names()).to.have.length(64);
    expect(lines).to.deep.equal([]);
  });

  it("escapes format characters, which change the direction of text", () => {
    const raw: string[] = [];
    const seen = createLogger({ service: "s", level: "info", destination: { write: (line) => raw.push(line) } });
    seen.info({ stateMessage: "dis\u202ek \u009b2J" }, "a\u2028b");
    expect(raw.join("")).to.match(/^[ -~]+\n$/);
    expect(JSON.parse(raw[0] ?? "")).to.include({ stateMessage: "dis\u202ek \u009b2J", message: "a\u2028b" });
  });

  it("redacts secrets by name, at any depth, in lists and in errors", () => {
    const error = Object.assign(new Error("x"), { about: { env: { key: "p6" } } });
    log.info(
      {
        password: "p1",
        cpi: { token: "p2", blobstore: { secret: "p3", options: { keyPem: "p4", more: { private_key: ["p5"] } } } },
        users: [{ name: "n", passwd: 4_711 }, { credentials: null }],
        error,
        port: 1,
      },
      "a line",
    );
    expect(JSON.stringify(lines)).not.to.match(/p[1-6]|4711/);
    expect(lines[0]).to.include({ password: "<redacted>", port: 1, message: "a line" });
    expect(lines[0]?.users).to.deep.equal([{ name: "n", passwd: "<redacted>" }, { credentials: "<redacted>" }]);
    expect(lines[0]?.error).to.deep.include({ message: "x", about: { env: "<redacted>" } });
  });

  it("keeps texts that only mention a secret's name", () => {
    const said = '{"password":"p"}';
    log.info({ said, tokens: 3, passwords: 1 }, 'the "token": none');
    expect(lines[0]).to.include({ said, tokens: 3, passwords: 1, message: 'the "token": none' });
  });

  it("redacts the given secrets everywhere, and stays JSON", () => {
    const redactor = new Redactor(['pass"word', 4_711_471]);
    const careful = createLogger({ service: "s", level: "info", destination, redactor });
    careful.info({ port: 4_711_471, said: 'login pass"word', error: new Error('pass"word') }, 'a "pass"word"');
    careful.info({ port: 1 }, "nothing");
    expect(lines[0]).to.include({ port: "<redacted>", said: "login <redacted>", message: 'a "<redacted>"' });
    expect(lines[1]).to.include({ port: 1, message: "nothing" });
    expect(JSON.stringify(lines)).to.not.include("pass");
  });

  it("distinguishes calls that failed by a bug, by a problem here, and by the caller", () => {
    const { onError: report } = rpcLogging(log);
    const failure = {
      method: "/a.B/C",
      identity: { role: "disk-agent" as const, name: "host-1" },
      durationMs: 1.23456,
      requestId: "r-1",
      changes: false,
      request: { hostId: "h1" },
      unexpected: false,
    };
    report({ ...failure, status: "NOT_FOUND", error: new NotFoundError("no disk d", { about: { disk_id: "d" } }) });
    report({ ...failure, status: "UNAVAILABLE", error: new NotFoundError("x") });
    report({ ...failure, status: "INTERNAL", error: new TypeError("bug"), unexpected: true, identity: undefined });
    expect(lines.map((line) => line.level)).to.deep.equal(["info", "warn", "error"]);
    expect(lines[0]).to.include({
      caller: "disk-agent host-1",
      error: "no disk d",
      diskId: "d",
      durationMs: 1.2,
      requestId: "r-1",
    });
    expect(lines[2]?.error).to.include({ type: "TypeError", message: "bug" });
  });

  it("limits lines of refused calls per caller, never those of calls that may have changed something", () => {
    const { onError: report } = rpcLogging(log);
    const call = { durationMs: 1, requestId: "r", changes: true, request: undefined, unexpected: false };
    const of = (name: string) => ({ ...call, method: "/a.B/C", identity: { role: "disk-agent" as const, name } });
    const denied = new PermissionDeniedError("host-1 may not call /a.B/C");
    for (let count = 0; count < 10_000; count++)
      report({ ...of("host-1"), status: "PERMISSION_DENIED", error: denied });
    expect(lines).to.have.length(120);
    for (let count = 0; count < 1_000; count++)
      report({ ...of("host-1"), status: "DEADLINE_EXCEEDED", error: new TimeoutError("took too long") });
    report({ ...of("host-2"), status: "PERMISSION_DENIED", error: denied });
    expect(lines).to.have.length(1_121);
  });

  it("logs refused connections, at most a line a second", () => {
    const { onRefused } = rpcLogging(log);
    for (let count = 0; count < 1000; count++) onRefused({ remoteAddress: "127.0.0.1", reason: "no identity" });
    expect(lines.length).to.be.within(1, 60);
    expect(lines[0]).to.include({ level: "warn", remoteAddress: "127.0.0.1", reason: "no identity" });
  });

  it("logs a peer's suppressed handshake failure when it comes again", async () => {
    const { onRefused } = rpcLogging(log);
    onRefused({ remoteAddress: "127.0.0.1", reason: "no identity" });
    const other = { remoteAddress: "127.0.0.2", reason: "ended", isHandshake: true } as const;
    for (; lines.length < 2; await setTimeout(20)) onRefused(other);
    expect(lines[1]).to.include({ remoteAddress: "127.0.0.2", reason: "ended" });
    onRefused(other);
    expect(lines).to.have.length(2);
  });
});
