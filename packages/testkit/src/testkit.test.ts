import { execFile } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { rejection, skipBecause } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { testCertificates } from "./certificates.js";
import { endsWithParent } from "./ends-with-parent.js";
import { eventually } from "./eventually.js";
import { temporaryFolder } from "./folders.js";
import { freePort } from "./ports.js";
import { ServiceProcess, type ServiceProcessOptions, spawnService } from "./service-process.js";

const run = promisify(execFile);
const SAMPLE = fileURLToPath(new URL("../../service/dist/serving/sample-service.js", import.meta.url));

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("spawnService", () => {
  const started: ServiceProcess[] = [];
  afterEach(async () => {
    for (const service of started.splice(0)) await service.kill();
  });

  async function options(behaviour: string, more: Partial<ServiceProcessOptions> = {}): Promise<ServiceProcessOptions> {
    const certs = await testCertificates();
    const port = await freePort();
    return {
      name: "sample",
      mainFile: SAMPLE,
      folder: temporaryFolder(),
      config: { behaviour, listen: { host: "127.0.0.1", port }, tls: certs.files("disk-registry") },
      health: { address: `127.0.0.1:${port}`, tls: certs.files("operator"), serverRole: "disk-registry" },
      ...more,
    };
  }
  async function spawn(given: ServiceProcessOptions): Promise<ServiceProcess> {
    const service = await spawnService(given);
    started.push(service);
    return service;
  }

  it("regards a standby as started when it listens", async () => {
    const given = await options("stand-by");
    await spawn({ ...given, waitFor: "listening" });
    const other = await options("stand-by", { startTimeoutMs: 1500 });
    const error = await rejection(spawn(other));
    // On a busy machine the process may not listen before the timeout.
    expect(error.message).to.match(/^sample did not start: .*(NOT_SERVING|does not serve)/);
  });

  it("reports the exit and the last output of a process that did not start", async () => {
    const error = await rejection(spawn(await options("refuse")));
    expect(error.message).to.contain("exit code 1").and.contain("there is no such thing");
  });

  it("shows the one line of a service whose port is in use", async () => {
    const given = await options("listen");
    const { port } = (given.config as { listen: { port: number } }).listen;
    const server = createServer().listen(port, "127.0.0.1");
    try {
      const service = new ServiceProcess({ ...given, waitFor: "nothing" });
      started.push(service);
      await service.start();
      await eventually(() => service.exit !== undefined);
      expect(service.exit).to.deep.equal({ code: 1, signal: null });
      const lines = service.logs.trimEnd().split("\n");
      expect(lines.filter((line) => !line.startsWith("stopped"))).to.have.length(1);
      expect(service.logs).to.contain(`sample cannot start: cannot listen on 127.0.0.1:${port}: the port is in use`);
    } finally {
      server.close();
    }
  });

  it("gives no port twice while the process that got it runs, whatever listens on it", async () => {
    const draws = () => {
      const rest = [0.25, 0.25, 0.5];
      return () => rest.shift() ?? Math.random();
    };
    const port = await freePort(1, draws());
    expect(await freePort(2, draws())).not.to.be.within(port - 1, port);
    const index = fileURLToPath(new URL("./index.js", import.meta.url));
    const script = `import { freePort } from ${JSON.stringify(index)};
      const rest = [0.25, 0.25, 0.5];
      console.log(await freePort(1, () => rest.shift() ?? Math.random()));`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", script], { timeout: 60_000 });
    expect(Number(stdout)).to.be.above(0).and.not.to.equal(port);
  });

  it("leaves neither process nor folder behind, however the test process ends", async () => {
    const given = await options("run", { waitFor: "nothing" });
    const script = join(given.folder, "test.mjs");
    const index = fileURLToPath(new URL("./index.js", import.meta.url));
    for (const end of ["process.exit(3)", "process.kill(process.pid, 'SIGTERM')", "throw new Error('boom')"]) {
      writeFileSync(
        script,
        `import { spawnService, temporaryFolder } from ${JSON.stringify(index)};
         const folder = temporaryFolder();
         const service = await spawnService({ ...${JSON.stringify(given)}, folder });
         console.log(JSON.stringify({ pid: service.pid, folder }));
         await new Promise((resolve) => setTimeout(resolve, 300));
         ${end};
         setInterval(() => {}, 1000);`,
      );
      const error = await rejection(run(process.execPath, [script], { timeout: 60_000 }));
      const { pid, folder } = JSON.parse(String(error.stdout).split("\n")[0] as string);
      await eventually(() => !isAlive(pid));
      expect(existsSync(folder), end).to.equal(false);
    }
  });

  it("leaves no process behind when the test process is killed", async function () {
    if (endsWithParent().length === 0) return skipBecause(this, "there is no setpriv on PATH");
    const folder = temporaryFolder();
    const script = join(folder, "test.mjs");
    const index = fileURLToPath(new URL("./index.js", import.meta.url));
    // A program that writes nothing gets no SIGPIPE when its parent has ended.
    const silent = { name: "silent", command: "sleep", args: ["600"], logFile: join(folder, "log") };
    writeFileSync(
      script,
      `import { Child } from ${JSON.stringify(index)};
       console.log(new Child(${JSON.stringify(silent)}).pid);
       setTimeout(() => process.kill(process.pid, "SIGKILL"), 300);`,
    );
    const { stdout } = await rejection(run(process.execPath, [script]));
    await eventually(() => !isAlive(Number(stdout)));
  });
});
