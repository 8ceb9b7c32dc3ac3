import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { eventually, freePort, leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { operatorClients } from "./mesh/clients.js";
import { MeshLayout, PORT_SPAN } from "./mesh/layout.js";

type Command = readonly [file: string, ...args: string[]];

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const LAUNCH: Command = [process.execPath, fileURLToPath(new URL("./main.js", import.meta.url))];
/** The test starts many processes, and the machine may be busy. */
const STORY_TIMEOUT_MS = 180_000;

/** The program behind `npm start`, or npm, as its own process with its output so far. */
class Launcher {
  output = "";
  readonly ended: Promise<number | null>;
  private readonly child: ChildProcess;

  constructor([file, ...args]: Command, env: NodeJS.ProcessEnv = process.env) {
    this.child = spawn(file, args, { cwd: repository, env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.output += text;
      });
    this.ended = new Promise((resolve) => this.child.once("close", (code) => resolve(code)));
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async printed(text: string): Promise<void> {
    const seen = eventually(() => this.output.includes(text), { timeoutMs: STORY_TIMEOUT_MS });
    const ended = this.ended.then((code) => {
      if (!this.output.includes(text))
        throw new Error(`it ended with ${code} before it printed "${text}":\n${this.output}`);
    });
    await Promise.race([seen, ended]);
  }
}

describe("npm start", function () {
  this.timeout(3 * STORY_TIMEOUT_MS);

  let layout: MeshLayout;
  let basePort: number;
  let launchers: Launcher[];

  async function begin(): Promise<void> {
    launchers = [];
    basePort = await freePort(PORT_SPAN + 1);
    layout = new MeshLayout(join(temporaryFolder(), "a folder", ".diskmesh"), basePort);
    mkdirSync(join(layout.stateFolder, ".."));
  }

  async function end(): Promise<void> {
    for (const launcher of launchers) launcher.signal("SIGTERM");
    await Promise.all(launchers.map(({ ended }) => ended));
  }

  function start(args: readonly string[] = [], env?: NodeJS.ProcessEnv, command = LAUNCH): Launcher {
    const places = ["--state", layout.stateFolder, "--base-port", String(basePort)];
    const launcher = new Launcher([...command, ...places, ...args], env);
    launchers.push(launcher);
    return launcher;
  }

  async function expectAllStopped(): Promise<void> {
    for (const [name, address] of layout.addresses)
      await eventually(async () => !(await isListening(address)) || Promise.reject(new Error(`${name} still listens`)));
  }

  describe("once, and again", () => {
    let output: string;

    before(async () => {
      await begin();
      const once = start(["--once", "--csi"]);
      expect(await once.ended, once.output).to.equal(0);
      output = once.output;
      await expectAllStopped();
    });
    after(end);

    it("runs the whole story, and leaves its state", () => {
      expect(titles(output).filter((title) => !title.startsWith("volume"))).to.deep.equal([
        "mesh started",
        "hosts added",
        "devices ATTACHED",
        "cloud config",
        "deployment",
        "devices erased",
        "disk provided",
        "16 MiB written",
        "host-N fenced",
        "disk detached",
        "disk provided",
        "checksum equal",
        // N is the number of any host, because the first VM goes to the first host that was heard.
        "late write of host-N refused",
        "checksum still equal",
        "disk moved in use",
        // N is the number of the host without a VM.
        "host-N removed",
        "checksum equal",
        "hosts added",
      ]);
      expect(output).to.match(/hosts added: host-1 S_OK, host-2 S_OK, host-3 S_OK/);
      expect(output).to.match(/refused: its program: \S.*; its agent: the server knows no key of /);
      expectStateOf(layout);
    });

    it("ends with a volume of the CSI driver that moves where this machine mounts disks, and leaves none", () => {
      const isMounted = output.includes("disks are block devices");
      expect(titles(output).slice(isMounted ? -3 : -2)).to.deep.equal([
        "volume created",
        ...(isMounted ? ["volume mounted", "volume moved"] : ["volume attached"]),
      ]);
      expect(output).to.match(isMounted ? /the same bytes in / : /and not mounted: \S/);
      expect(readFileSync("/proc/self/mountinfo", "utf8")).not.to.include("csi-node-");
    });

    it("finds its state again, serves until Ctrl-C, and later changes nothing that a user made", async function () {
      leaveToVerify(this);
      const again = start();
      await again.printed("The mesh serves until Ctrl-C");
      expect(titles(again.output)).to.deep.equal(["mesh started"]);
      expect(again.output).to.include("the story was told before, and what you have changed stays");
      expect(await userOfPrintedLogin(again.output, layout)).to.equal("admin");
      process.kill(pidOf(layout, "disk-agent-host-2"), "SIGKILL");
      await again.printed("disk-agent-host-2 ended (SIGKILL); starting it again");
      await eventually(() => isListening(layout.agentAddress("host-2")));
      const clients = operatorClients(layout);
      try {
        const left = await changedByUser(clients);
        // Ctrl-C arrives twice: from the terminal, and from npm.
        again.signal("SIGINT");
        again.signal("SIGINT");
        expect(await again.ended, again.output).to.equal(0);
        expect(again.output).not.to.include("was killed");
        await expectAllStopped();
        await start().printed("The mesh serves until Ctrl-C");
        await eventually(async () => expect(await stateOf(clients)).to.deep.equal(left));
      } finally {
        clients.close();
      }
    });
  });

  describe("on a new machine", () => {
    beforeEach(begin);
    afterEach(end);

    it("runs the story to its end although each process is killed meanwhile", async function () {
      leaveToVerify(this);
      const launcher = start(["--once", "--csi"]);
      // No agent is killed that serves a disk in use: a block device of the engine node ends with its agent.
      const kills: [string, string][] = [
        ["hosts added", "disk-registry"],
        ["devices ATTACHED", "nats-server"],
        ["cloud config", "director"],
        ["deployment", "disk-agent-host-1"],
        ["devices erased", "cpi-dispatcher"],
        ["disk provided: demo-disk", "disk-agent-host-3"],
        ["16 MiB written", "director"],
        ["disk detached", "disk-registry"],
        ["disk provided: for", "disk-agent-host-3"],
        ["checksum equal", "disk-agent-host-1"],
        ["checksum still equal", "disk-registry"],
        ["disk moved in use", "disk-agent-host-1"],
        ["volume created", "csi-controller"],
      ];
      for (const [after, victim] of kills) {
        await launcher.printed(`ok  ${after}`);
        process.kill(pidOf(layout, victim), "SIGKILL");
      }
      expect(await launcher.ended, launcher.output).to.equal(0);
      for (const [, victim] of kills) expect(launcher.output).to.include(`${victim} ended (SIGKILL)`);
      await expectAllStopped();
    });

    it("has left nothing when npm, which alone was interrupted, ends", async function () {
      leaveToVerify(this);
      const npm = start([], process.env, ["npm", "start", "--"]);
      await npm.printed("The mesh serves until Ctrl-C");
      npm.signal("SIGINT");
      expect(await npm.ended, npm.output).to.equal(0);
      expect(processesIn(layout.stateFolder)).to.deep.equal([]);
      const mounted = readFileSync("/proc/self/mountinfo", "utf8").replaceAll("\\040", " ");
      expect(mounted).not.to.include(layout.stateFolder);
    });

    it("leaves no process behind when it is killed itself", async function () {
      leaveToVerify(this);
      const launcher = start();
      await launcher.printed("mesh started");
      launcher.signal("SIGKILL");
      await launcher.ended;
      await expectAllStopped();
    });

    describe("reports in one line", () => {
      async function refusal(args: string[] = [], env?: NodeJS.ProcessEnv): Promise<string> {
        const launcher = start(["--once", ...args], env);
        expect(await launcher.ended, launcher.output).to.equal(1);
        await expectAllStopped();
        expect(launcher.output.trimEnd().split("\n")).to.have.lengthOf(1);
        return launcher.output;
      }

      it("a port in use, and touches nothing", async () => {
        const taken = await listenOn(layout.addressOf("disk-registry"));
        try {
          const launcher = start(["--fresh"]);
          expect(await launcher.ended).to.equal(1);
          expect(launcher.output).to.match(
            /^diskmesh: in use: 127\.0\.0\.1:\d+ \(for disk-registry\)\. .*--base-port N\n$/,
          );
          expect(existsSync(layout.stateFolder)).to.equal(false);
        } finally {
          taken.close();
        }
      });

      it("a nats-server that is too old", async () => {
        const folder = temporaryFolder();
        writeFileSync(join(folder, "nats-server"), "#!/bin/sh\necho nats-server: v2.11.10\n", { mode: 0o755 });
        const output = await refusal([], { PATH: `${folder}:${process.env.PATH}` });
        expect(output).to.match(
          /^diskmesh: nats-server 2\.11\.10 cannot restrict agents to their permissions: run 2\./,
        );
      });

      it("a state folder that is a file", async () => {
        writeFileSync(layout.stateFolder, "");
        expect(await refusal()).to.match(/^diskmesh: the state folder is corrupt: .*\.diskmesh is no folder.*--fresh/);
      });

      it("a corrupt tablet", async function () {
        leaveToVerify(this);
        const folder = join(layout.dataFolder("disk-registry"), "registry");
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, "journal.0000000000000001"), "garbage\n".repeat(1024));
        const line = await refusal();
        expect(line).to.include(folder).and.include("--fresh");
      });

      it("a missing nats-server", async () => {
        expect(await refusal([], { PATH: "" })).to.match(/^diskmesh: nats-server is not on PATH: install it/);
      });
    });
  });
});

/** Returns the titles of the successful steps, in order. */
function titles(output: string): string[] {
  return [...output.matchAll(/^\[ *[\d.]+ s\] ok {2}([^:]+):/gm)].map(([, title = ""]) =>
    title.replace(/host-\d/, "host-N"),
  );
}

function expectStateOf(layout: MeshLayout): void {
  expect(statSync(layout.boshLoginFile).mode & 0o777).to.equal(0o600);
  const endpoints = JSON.parse(readFileSync(layout.endpointsFile, "utf8"));
  expect(endpoints.page).to.equal(`https://${layout.directorHttpsAddress}/page`);
  expect(endpoints.director.grpc).to.equal(layout.addressOf("director"));
  expect(endpoints["disk-agents"]["host-3"].grpc).to.equal(layout.agentAddress("host-3"));
  for (const name of ["ca.pem", "operator.pem", "operator-key.pem"])
    expect(existsSync(join(layout.certFolder, name)), name).to.equal(true);
  expect(statSync(join(layout.certFolder, "operator-key.pem")).mode & 0o077).to.equal(0);
}

function isListening(address: string): Promise<boolean> {
  const [host, port] = address.split(":");
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port) }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

function listenOn(address: string): Promise<Server> {
  const [host, port] = address.split(":");
  return new Promise((resolve) => {
    const server = createServer().listen({ host, port: Number(port) }, () => resolve(server));
  });
}

/** Returns the command lines of the processes that work in the folder. */
function processesIn(folder: string): string[] {
  return commandLines()
    .map(([, line]) => line)
    .filter((line) => line.includes(folder));
}

/** Returns the process id of the member that was started with this config file. */
function pidOf(layout: MeshLayout, name: string): number {
  const configFile = layout.configFile(name, name === "nats-server" ? "conf" : "yml");
  const [pid] = commandLines().find(([, line]) => line.split("\0").includes(configFile)) ?? [];
  if (pid !== undefined) return pid;
  throw new Error(`no process runs with ${configFile}`);
}

function commandLines(): [pid: number, line: string][] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((pid) => {
      try {
        return [[Number(pid), readFileSync(`/proc/${pid}/cmdline`, "utf8")]];
      } catch {
        // The process has ended since the folder was listed.
        return [];
      }
    });
}

type OperatorClients = ReturnType<typeof operatorClients>;

/** Changes what the story made, as a user may, and returns the state then. */
async function changedByUser(clients: OperatorClients): Promise<Awaited<ReturnType<typeof stateOf>>> {
  const content = "azs: [{ name: z1 }]\ndisk_types: [{ name: mine, disk_size: 32 }]\n";
  await clients.configs.updateConfig({ type: "cloud", content });
  await clients.disks.detachDynamicDisk({ diskName: "demo-disk", wait: true });
  await clients.disks.deleteDynamicDisk({ diskName: "demo-disk", wait: true });
  await clients.deployments.deleteDeployment({ deployment: "demo", wait: true });
  await eventually(async () => {
    const { result } = await clients.registry.removeHost({ hostId: "host-3" });
    expect(result?.code).to.be.oneOf(["ACTION_CODE_S_OK", "ACTION_CODE_S_ALREADY"]);
  });
  await clients.registry.setHostState({ hostIds: ["host-2"], state: "HOST_STATE_CORDONED", reason: "test" });
  const state = await stateOf(clients);
  expect(state.hosts).to.deep.include({ hostId: "host-2", removalRequested: false, cordoned: "test" });
  expect(state.hosts).to.deep.include({ hostId: "host-3", removalRequested: true, cordoned: undefined });
  return state;
}

async function stateOf({ configs, registry, deployments, disks }: OperatorClients) {
  return {
    cloud: (await configs.listConfigs({ type: "cloud" })).configs.map((config) => config.content),
    hosts: (await registry.listHosts({})).hosts.map(({ hostId, removalRequested, cordoned }) => ({
      ...{ hostId, removalRequested, cordoned: cordoned?.reason },
    })),
    deployments: (await deployments.listDeployments({})).deployments.map(({ name }) => name),
    disks: (await disks.listDynamicDisks({})).disks.map(({ diskName }) => diskName),
  };
}

/** Returns the user in the director's /info, asked with the login that was printed for the bosh CLI. */
async function userOfPrintedLogin(output: string, layout: MeshLayout): Promise<unknown> {
  const [, url] = /bosh alias-env mesh -e (\S+) --ca-cert \S+/.exec(output) ?? [];
  const [, auth] = /BOSH_CLIENT=(admin BOSH_CLIENT_SECRET=\w+)/.exec(output) ?? [];
  const ca = readFileSync(layout.tlsFiles("operator").caFile);
  const options = { ca, auth: auth?.replace(" BOSH_CLIENT_SECRET=", ":") ?? "", agent: false };
  const info = await new Promise<string>((resolve, reject) => {
    get(`${url}/info`, options, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      response.on("end", () => resolve(body));
    }).on("error", reject);
  });
  return JSON.parse(info).user;
}
