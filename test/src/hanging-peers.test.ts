import { readFileSync } from "node:fs";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { createServer as createTlsServer } from "node:tls";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { runCommandLine } from "@diskmesh/cli";
import { DEFAULT_RPC_SERVER_LIMITS, RpcServer } from "@diskmesh/rpc";
import { Child, fakeHandlers, leaveToVerify, type TestCertificates, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { certificateEnvironment } from "./mesh/type-command.js";
import { repositoryFolder } from "./repository-folder.js";

/** Timeouts for a run beside other tests; each command has its own, shorter timeout. */
const STATUS_MS = 120_000;
const CALL_MS = 180_000;

/** The real process, with its own deadlines. The command's tests try each action and each kind of peer. */
describe("the diskmesh command beside a peer that hangs", () => {
  let certificates: TestCertificates;
  const servers: Server[] = [];
  before(async () => {
    certificates = await testCertificates();
  });
  after(() => {
    for (const server of servers) server.close();
  });

  /** Returns a server that is silent once it has shaken hands. */
  function silent(role: string): Server {
    const { caFile, certFile, keyFile } = certificates.files(role);
    const [ca, cert, key] = [caFile, certFile, keyFile].map((file) => readFileSync(file));
    return createTlsServer({ ca, cert, key, requestCert: true, ALPNProtocols: ["h2"] }, (socket) => socket.resume());
  }

  function environmentFor(addressOf: (role: string) => string): Record<string, string> {
    return {
      DISKMESH_DIRECTOR: addressOf("director"),
      DISKMESH_DISPATCHER: addressOf("cpi-dispatcher"),
      DISKMESH_REGISTRY: addressOf("disk-registry"),
      ...certificateEnvironment(certificates.files("operator")),
    };
  }

  async function besideSilent(): Promise<Record<string, string>> {
    const addresses: Record<string, string> = {};
    for (const role of ["director", "cpi-dispatcher", "disk-registry"]) {
      const server = silent(role);
      servers.push(server);
      server.on("connection", (socket) => socket.on("error", () => {}).unref());
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      addresses[role] = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    }
    return environmentFor((role) => addresses[role] as string);
  }

  /** Runs the real process. Returns its exit code; undefined when it has not exited in time. */
  async function exitCode(args: readonly string[], env: Record<string, string>, timeoutMs: number) {
    const logFile = join(certificates.folder, "hanging.log");
    const main = join(repositoryFolder, "packages/cli/bin/diskmesh.mjs");
    const child = new Child({ name: args.join(" "), command: process.execPath, args: [main, ...args], env, logFile });
    const timer = setTimeout(() => child.signal("SIGKILL"), timeoutMs);
    const { code } = await child.exited;
    clearTimeout(timer);
    return { code, output: child.output };
  }

  it("status exits when its table is written", async () => {
    const { code, output } = await exitCode(["status"], await besideSilent(), STATUS_MS);
    expect(output).to.match(/^disk-registry +\S+ +does not answer/m);
    expect(code).to.equal(3);
  });

  it("every call and stream ends, and the process exits", async function () {
    leaveToVerify(this);
    const env = await besideSilent();
    const lines = ["hosts", "watch hosts", `backup registry ${join(certificates.folder, "never.backup")}`];
    const ended = await Promise.all(lines.map((line) => exitCode(line.split(" "), env, CALL_MS)));
    for (const { code, output } of ended) {
      expect(output).to.match(/no answer within|no connection within/);
      expect(code).to.be.oneOf([3, 5]);
    }
  });

  it("a list whose pages never end is given up after the total deadline", async () => {
    const tls = certificates.files("disk-registry");
    const server = new RpcServer({ tls, limits: DEFAULT_RPC_SERVER_LIMITS });
    const endless = { listHosts: async () => ({ hosts: [], nextPageToken: "more" }) };
    const handlers = fakeHandlers(DiskRegistryServiceDefinition, endless);
    server.addService(DiskRegistryServiceDefinition, { roles: ["operator"], handlers });
    const port = await server.listen({ host: "127.0.0.1", port: 0 });
    const environment = environmentFor(() => `127.0.0.1:${port}`);
    const [out, err] = [new PassThrough(), new PassThrough()];
    const signal = new AbortController().signal;
    const surroundings = { out, err, environment, workingFolder: certificates.folder, signal, totalDeadlineMs: 300 };
    expect(await runCommandLine(["hosts"], surroundings)).to.equal(5);
    expect(String(err.read())).to.match(/^diskmesh: hosts has not ended within 0.3 s/);
    await server.drain();
  });
});
