import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { clearDeadSocket, clearDeadSockets } from "./dead-socket.js";
import { NbdServer } from "./server.js";
import { shortSocketPath } from "./socket-path.js";

describe("the state of a socket's path", () => {
  let folder: string;
  let live: Server;

  beforeEach(async () => {
    // Longer than the maximum path of a Unix socket.
    folder = join(temporaryFolder(), "x".repeat(120));
    mkdirSync(folder);
    live = await listen("live.sock");
    await leaveDead("dead.sock");
    await leaveDead("foreign name");
    writeFileSync(join(folder, "file.sock"), "content");
    mkdirSync(join(folder, "folder.sock"));
    symlinkSync("dead.sock", join(folder, "link.sock"));
  });
  afterEach(() => live.close());

  async function listen(name: string): Promise<Server> {
    const short = await shortSocketPath(join(folder, name));
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => server.listen(short.path, resolve));
    await short[Symbol.asyncDispose]();
    return server;
  }

  /** Leaves a socket in place as if its process had been killed while it listened. */
  async function leaveDead(name: string): Promise<void> {
    const program = `require("node:net").createServer().listen(${JSON.stringify(name)}, () => console.log("listens"));`;
    const child = spawn(process.execPath, ["-e", program], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(existsSync(join(folder, name))).to.equal(true);
  }

  it("allows removal only of a killed process's socket with a matching name", async () => {
    const cleared = await clearDeadSockets(folder, (name) => name.endsWith(".sock"));
    expect(cleared).to.deep.equal(["dead.sock"]);
    expect(readdirSync(folder).sort()).to.deep.equal([
      "file.sock",
      "folder.sock",
      "foreign name",
      "link.sock",
      "live.sock",
    ]);
    expect(await clearDeadSocket(join(folder, "dead.sock"))).to.equal("nothing");
    expect(await clearDeadSocket(join(folder, "live.sock"))).to.equal("live");
    expect(readFileSync(join(folder, "file.sock"), "utf8")).to.equal("content");
  });

  it("allows an export to replace only a dead socket", async () => {
    const serve = (name: string) =>
      NbdServer.listen({
        socketPath: join(folder, name),
        served: { name: "disk-1", sizeBytes: 4_096, blockSizeBytes: 4_096 },
        disk: {} as never,
        limits: { maxConnections: 1, maxInFlightRequests: 1, maxInFlightBytes: 4_096, negotiationTimeoutMs: 1_000 },
        log: { debug() {}, info() {}, warn() {}, error() {} } as never,
      });
    await (await serve("dead.sock")).close(0);
    for (const [name, reason] of [
      ["live.sock", "another process serves at this path"],
      ["file.sock", "the path is not a socket"],
      ["folder.sock", "the path is not a socket"],
    ]) {
      await rejection(serve(name as string), UnavailableError, reason as string);
    }
    expect(await clearDeadSocket(join(folder, "live.sock"))).to.equal("live");
    expect(readFileSync(join(folder, "file.sock"), "utf8")).to.equal("content");
  });
});
