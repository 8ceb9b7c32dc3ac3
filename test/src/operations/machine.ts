import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { endsWithParent, onExit } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { Unit } from "./unit.js";

/** Timeout in ms of a step on a busy machine. */
const STEP_TIMEOUT_MS = 300_000;
const PROGRAMS = ["systemctl", "scp", "systemd-sysusers", "udevadm", "chown"];
/** Paths that each machine has separately. */
const OWN_PATHS = /^\/(etc\/(diskmesh|systemd|udev)|var\/lib\/diskmesh|opt\/diskmesh|run\/credentials)/;

const MAX_TEXT_BYTES = 100_000;

export interface Answer {
  readonly code: number;
  readonly output: string;
}

/** Place of a test's machine. */
export interface MachinePlace {
  /** Folder that stands for the machine's file system. */
  readonly folder: string;
  /** Launcher that runs a program at the machine's address. */
  readonly launcher: readonly string[];
  /** Address of this process for the machine's programs. */
  readonly testHost: string;
}

/**
 * A simulated machine: a folder instead of a file system, an address, a persistent shell, and services that run as
 * under systemd. It ends with this process.
 */
export class Machine implements AsyncDisposable {
  readonly #units = new Map<string, Unit>();
  readonly #users = new Set<string>();
  /** Secret that keeps out other users of this computer, who can reach the port. */
  readonly #secret = randomUUID();
  readonly #server: Server;
  readonly #ready: Promise<void>;
  readonly #shell: ChildProcess;
  readonly #forget: () => void;
  #steps = 0;

  constructor(
    readonly name: string,
    private readonly place: MachinePlace,
    /** Returns the machine with an address, as the target of a copy. */
    private readonly at: (address: string) => Machine,
  ) {
    const { folder, launcher, testHost } = place;
    for (const part of ["home", "bin", "etc/systemd/system", "steps"])
      mkdirSync(join(folder, part), { recursive: true });
    this.#server = createServer((socket) => void this.#answer(socket)).listen({ host: testHost, port: 0 });
    this.#ready = once(this.#server, "listening").then(() => this.#writePrograms());
    const [command = "", ...args] = [...endsWithParent(), ...launcher, "bash", "--noprofile", "--norc", "-seu"];
    // PATH without this repository: a machine has only programs that the document installs.
    const others = (process.env.PATH ?? "").split(":").filter((one) => !one.startsWith(repositoryFolder));
    const PATH = [join(folder, "bin"), ...others].join(":");
    this.#shell = spawn(command, args, {
      cwd: join(folder, "home"),
      env: { PATH, HOME: join(folder, "home"), TMPDIR: folder, LANG: "C.UTF-8" },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#forget = onExit(() => this.#shell.kill("SIGKILL"));
  }

  get folder(): string {
    return this.place.folder;
  }

  /** Types a script into the machine's shell. Returns its output; throws with the output when a command fails. */
  async type(script: string): Promise<string> {
    await this.#ready;
    const [stdin, stdout] = [this.#shell.stdin, this.#shell.stdout];
    if (stdin === null || stdout === null || this.#shell.exitCode !== null)
      throw new Error(`the shell of ${this.name} has ended`);
    const number = ++this.#steps;
    const [file, printed] = ["sh", "out"].map((end) => join(this.folder, "steps", `${number}.${end}`)) as [
      string,
      string,
    ];
    writeFileSync(file, script);
    const lines = createInterface({ input: stdout });
    const ended = new Promise<string>((resolve) => {
      lines.once("line", resolve);
      lines.once("close", () => resolve("a command failed, and ended the shell"));
      setTimeout(() => resolve(`no end after ${STEP_TIMEOUT_MS} ms`), STEP_TIMEOUT_MS).unref();
    });
    stdin.write(`. '${file}' </dev/null >'${printed}' 2>&1; echo done\n`);
    const how = await ended;
    lines.close();
    const output = existsSync(printed) ? readFileSync(printed, "utf8") : "";
    if (how === "done") return output;
    throw new Error(`${this.name}: ${how}:\n${script}\nprinted:\n${output}\n${this.lastWords}`);
  }

  unit(name: string): Unit {
    const found = this.#units.get(name);
    if (found !== undefined) return found;
    const file = join(this.folder, "etc/systemd/system", `${name}.service`);
    if (!existsSync(file)) throw new Error(`${this.name} has no unit ${name}`);
    const unit = new Unit(name, file, { ...this.place, path: (path) => this.path(path) });
    this.#units.set(name, unit);
    return unit;
  }

  /** Returns the real path of a path on the machine. */
  path(ofMachine: string): string {
    return OWN_PATHS.test(ofMachine) ? join(this.folder, ofMachine) : ofMachine;
  }

  get units(): readonly Unit[] {
    return [...this.#units.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.units.map((unit) => unit.kill()));
    this.#forget();
    this.#shell.kill("SIGKILL");
    this.#server.close();
  }

  /**
   * Writes the machine's programs as shell scripts that ask this process, because hundreds are started and Node starts
   * slowly.
   */
  #writePrograms(): void {
    const { port } = this.#server.address() as AddressInfo;
    for (const program of PROGRAMS) {
      const lines = [
        "#!/usr/bin/env bash",
        `exec 3<>/dev/tcp/${this.place.testHost}/${port}`,
        `printf '%s\\0' "$#" '${this.#secret}' '${program}' "$PWD" "$@" >&3`,
        "read -r code <&3",
        "cat <&3",
        'exit "$code"',
      ];
      writeFileSync(join(this.folder, "bin", program), `${lines.join("\n")}\n`, { mode: 0o700 });
    }
  }

  async #answer(socket: Socket): Promise<void> {
    socket.on("error", () => socket.destroy());
    const { code, output } = await wordsFrom(socket)
      .then((words) => this.#run(words))
      .catch((error): Answer => ({ code: 1, output: `${error.message}\n` }));
    socket.end(`${code}\n${output}`);
  }

  async #run([secret, program, folder = "", ...args]: readonly string[]): Promise<Answer> {
    if (secret !== this.#secret) throw new Error("nobody of this test asks");
    if (program === "scp") return this.#copy(args, folder);
    if (program === "systemctl") return this.#systemctl(args);
    // A simulated machine has no devices of its own.
    if (program === "udevadm") return { code: 0, output: "" };
    return program === "chown" ? this.#changeOwner(args) : this.#makeUsers(args);
  }

  /** Records created users and ignores file owners, because everything runs as the user of the test. */
  #makeUsers(files: readonly string[]): Answer {
    for (const file of files)
      for (const [, user = ""] of readFileSync(file, "utf8").matchAll(/^u (\S+)/gm)) this.#users.add(user);
    return { code: 0, output: "" };
  }

  #changeOwner(args: readonly string[]): Answer {
    const [owner = "", ...files] = args.filter((arg) => arg !== "-R");
    const user = owner.replace(/:$/, "");
    if (!this.#users.has(user)) return { code: 1, output: `chown: invalid user: ${user}\n` };
    const missing = files.find((file) => !existsSync(file));
    return missing === undefined ? { code: 0, output: "" } : { code: 1, output: `chown: cannot access ${missing}\n` };
  }

  /** Simulates `scp FILE... root@ADDRESS:PLACE`. A target without a folder is in the other machine's home. */
  #copy(args: readonly string[], folder: string): Answer {
    const paths = args.filter((arg) => !arg.startsWith("-"));
    const [, address = "", place = ""] = /^root@([^:]+):(.*)$/.exec(paths.pop() ?? "") ?? [];
    const other = this.at(address);
    // Translates paths below this machine's folder to the other machine's folder, because all machines share one file
    // system.
    const target = place.startsWith(this.folder)
      ? place.replace(this.folder, other.folder)
      : join(other.folder, "home", place);
    if (place.endsWith("/") && !existsSync(target))
      return { code: 1, output: `scp: ${place}: No such file or directory\n` };
    for (const path of paths) {
      const source = path.startsWith("/") ? path : join(folder, path);
      const copied = place === "" || place.endsWith("/") ? join(target, basename(path)) : target;
      cpSync(source, copied, { recursive: true });
      for (const file of filesOf(copied)) this.#translate(file, other);
    }
    return { code: 0, output: "" };
  }

  /** Translates paths of this machine in a file's text to paths of the other machine. */
  #translate(file: string, other: Machine): void {
    if (statSync(file).size > MAX_TEXT_BYTES) return;
    const said = readFileSync(file, "utf8");
    if (said.includes(this.folder)) writeFileSync(file, said.replaceAll(this.folder, other.folder));
  }

  async #systemctl(args: readonly string[]): Promise<Answer> {
    const [verb = "", ...names] = args.filter((arg) => !arg.startsWith("-"));
    if (verb === "daemon-reload") return { code: 0, output: "" };
    const said: string[] = [];
    for (const name of names) {
      // Skips timers, for which the test does not wait.
      if (name.endsWith(".timer")) continue;
      const unit = this.unit(name.replace(/\.service$/, ""));
      if (verb === "enable" && !args.includes("--now")) continue;
      if (verb === "stop" || verb === "restart" || (verb === "disable" && args.includes("--now"))) await unit.stop();
      if (verb === "start" || verb === "restart" || verb === "enable") said.push(await unit.start());
      else if (verb === "reload") said.push(unit.reload());
      else if (verb !== "stop" && verb !== "disable")
        throw new Error(`nobody has taught the test \`systemctl ${verb}\``);
    }
    const output = said.filter(Boolean).map((line) => `${line}\n`);
    return { code: output.length === 0 ? 0 : 1, output: output.join("") };
  }

  /** Returns the last log lines of the machine's services. */
  get lastWords(): string {
    return this.units
      .map(({ name, logs }) => `${this.name} ${name}:\n${logs.split("\n").slice(-8).join("\n")}`)
      .join("\n");
  }
}

/** Reads words that each end with a NUL. The first is the number of arguments after secret, program and folder. */
function wordsFrom(socket: Socket): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    let heard = "";
    socket.setEncoding("utf8").on("data", (chunk: string) => {
      heard += chunk;
      const [count, ...words] = heard.split("\0").slice(0, -1);
      if (words.length === Number(count) + 3) resolve(words);
    });
    socket.once("close", () => reject(new Error("who asked has gone")));
  });
}

function filesOf(path: string): string[] {
  return statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => filesOf(join(path, name))) : [path];
}
