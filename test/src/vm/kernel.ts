import { spawnSync } from "node:child_process";
import {
  accessSync,
  appendFileSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  rmSync,
  truncateSync,
} from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join, relative } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { MIB_BYTES } from "@diskmesh/domain";
import { Child, eventually, temporaryFolder } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { PROGRAMS, programPath, writeInitramfs } from "./initramfs.js";

/** Program that runs the trials. */
export const TRIALS = fileURLToPath(new URL("main.js", import.meta.url));
/** Results of all runs that count something, a line of JSON for each. */
const TALLY = join(repositoryFolder, ".cache/vm-tally.jsonl");
/** Devices of the virtual machine that fail, and the modules of their drivers. */
const FAILING = {
  virtio: ["-device", "virtio-blk-pci,drive=virtio"],
  scsi: ["-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=scsi"],
  nvme: ["-device", "nvme,drive=nvme,serial=failing"],
  /** The second one of its kind. */
  flushes: ["-device", "virtio-blk-pci,drive=flushes"],
};
const FAILING_SECTOR = 2048;
const DRIVE_BYTES = 64 * MIB_BYTES;
/** Features of a processor with which TCG is slower than without them. */
const SLOW_FEATURES = ["la57", "erms", "fsrm", "pku"];
const DRIVERS = ["virtio_blk", "virtio_scsi", "sd_mod", "nvme"];
/** Modules of the trials. Kernels that have some built in lack their modules. */
const MODULES = [
  ...[
    "virtio_pci",
    "virtio_console",
    "loop",
    "dm-mod",
    "dm-delay",
    "dm-mirror",
    "ext4",
    "xfs",
    "nvmet-tcp",
    "nvme-tcp",
  ],
  ...["virtiofs", "overlay", "wireguard", "nf_tables", "veth", "virtio_net"],
  ...DRIVERS,
];
const MODPROBE_TIMEOUT_MS = 60_000;
/** Time limit of a start. */
const START_TIMEOUT_MS = 900_000;
/** Debian's package qemu-system-common has it outside of PATH. */
const FILE_SERVER = "/usr/lib/qemu/virtiofsd";
const FILE_SERVER_TIMEOUT_MS = 60_000;
/** Programs of this machine that the trials with a whole mesh start. */
const MESH_PROGRAMS = ["csi-sanity", "nbdfuse", "losetup", "mkfs.ext4"];
const CONSOLE_END_LENGTH = 6_000;

interface KernelFiles {
  readonly image: string;
  /** Paths of modules in the order in which they are loaded. */
  readonly modules: readonly string[];
}

/** Where the trials run: on this machine, or in a virtual machine with a kernel of its own. */
export type Place = "here" | KernelFiles;

interface PlaceOptions {
  /** A virtual machine mounts the files of this one. */
  readonly seesMachine: boolean;
  /** True for trials of two machines, which need virtual ones. */
  readonly areTwo?: boolean;
}

/** Returns where trials can run, or the reason why they cannot. */
export function findPlace({ seesMachine, areTwo = false }: PlaceOptions): Place | { readonly missing: string } {
  const ofMesh = seesMachine ? MESH_PROGRAMS.filter((name) => !programPath(name)) : [];
  if (ofMesh.length > 0) return { missing: `${ofMesh.join(", ")} not on PATH` };
  if (!areTwo && hasDeviceMapper()) return "here";
  if (process.arch !== "x64") return { missing: `the virtual machine is one of x64, this machine of ${process.arch}` };
  const programs = ["qemu-system-x86_64", "modprobe", "ldd", ...PROGRAMS].filter((name) => !programPath(name));
  if (programs.length > 0) return { missing: `${programs.join(", ")} not on PATH` };
  if (seesMachine && !existsSync(FILE_SERVER)) return { missing: `no ${FILE_SERVER}` };
  const folder = process.env.DISKMESH_KERNEL ?? join(repositoryFolder, ".cache/kernel");
  const reasons: string[] = [];
  for (const root of [folder, "/"]) {
    const found = findKernel(root);
    if (typeof found !== "string") return found;
    reasons.push(found);
  }
  return { missing: `${reasons.join(", ")}; DISKMESH_KERNEL names the folder of an unpacked kernel package` };
}

/** True where root may make devices of device-mapper, those of the trials' targets included. */
function hasDeviceMapper(): boolean {
  const program = programPath("dmsetup");
  if (process.getuid?.() !== 0 || program === undefined) return false;
  const { stdout } = spawnSync(program, ["targets"], { encoding: "utf8" });
  if (!/^linear /m.test(stdout)) return false;
  return /^delay /m.test(stdout) || spawnSync("modprobe", ["--dry-run", "dm-delay"]).status === 0;
}

/** Returns the newest kernel below `root` that has its modules, or why there is none. */
function findKernel(root: string): KernelFiles | string {
  const folder = join(root, "boot");
  const prefix = "vmlinuz-";
  const images = namesIn(folder).filter((name) => name.startsWith(prefix));
  const [image] = images.sort((a, b) => b.localeCompare(a, undefined, { numeric: true }));
  if (image === undefined) return `no kernel in ${folder}`;
  const version = image.slice(prefix.length);
  try {
    accessSync(join(folder, image), constants.R_OK);
    accessSync(join(root, "lib/modules", version, "modules.dep"), constants.R_OK);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  const modules = MODULES.flatMap((name) => {
    const args = ["-d", root, "-S", version, "--show-depends", name];
    const { stdout } = spawnSync("modprobe", args, { encoding: "utf8", timeout: MODPROBE_TIMEOUT_MS });
    return [...(stdout ?? "").matchAll(/^insmod (.+\.ko\S*)/gm)].map(([, file = ""]) => file);
  });
  return { image: join(folder, image), modules: [...new Set(modules)] };
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** One of two ends of a network cable. Its machine is number 1 or 2, and has a drive that outlives the machine. */
interface CableEnd {
  readonly folder: string;
  readonly number: 1 | 2;
}

interface KernelOptions {
  /** A virtual machine can mount the files of this one. */
  readonly seesMachine: boolean;
  /** Time limit of a test, above the one that it has inside. */
  readonly timeoutMs: number;
  readonly cable?: CableEnd;
}

/** A kernel with device-mapper that runs the trials. */
export class Kernel implements AsyncDisposable {
  #version = "";
  #child!: Child;
  #socket: Socket | undefined;
  #answers!: AsyncIterator<string>;

  private constructor(
    private readonly folder: string,
    private readonly commandLine: readonly [string, ...string[]],
    private readonly fileServer: Child | undefined,
    private readonly server: Server,
    private readonly timeoutMs: number,
  ) {}

  /** Starts it, and waits for its first line. */
  static async start(place: Place, { seesMachine, timeoutMs, cable }: KernelOptions): Promise<Kernel> {
    const folder = temporaryFolder();
    const port = join(folder, "port");
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(port, resolve));
    const fileServer = seesMachine && place !== "here" ? await serveFiles(folder) : undefined;
    const commandLine: readonly [string, ...string[]] =
      place === "here"
        ? [process.execPath, TRIALS, "serve", port]
        : await qemu(place, { folder, port, seesMachine, cable });
    const kernel = new Kernel(folder, commandLine, fileServer, server, timeoutMs);
    try {
      await kernel.#boot();
      return kernel;
    } catch (error) {
      await kernel[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #boot(): Promise<void> {
    const [command, ...args] = this.commandLine;
    const connected = new Promise<Socket>((resolve) => this.server.once("connection", resolve));
    this.#child = new Child({ name: "kernel", command, args, logFile: join(this.folder, "console"), env: SETTINGS });
    this.#socket = await within(this.#child, "no connection", connected, START_TIMEOUT_MS);
    this.#answers = createInterface({ input: this.#socket })[Symbol.asyncIterator]();
    this.#version = JSON.parse(await this.#answer("no start", START_TIMEOUT_MS)).kernel;
  }

  /** Ends it as a power cut ends a machine. */
  async #kill(): Promise<void> {
    this.#socket?.destroy();
    this.#child?.signal("SIGKILL");
    await this.#child?.exited;
  }

  /**
   * Runs a test of a suite there, and adds what it has counted to the file TALLY. The test may ask for calls in the machine
   * at the other end of the cable. Rejects with its failure, or with the end of the console when no answer comes.
   */
  async run(suite: string, title: string, other?: Kernel): Promise<void> {
    let answer = await this.#ask({ suite, title }, title);
    while ("call" in answer)
      answer = await this.#ask((await other?.obey(answer)) ?? { error: "no other machine" }, title);
    const { failure, tally } = answer;
    if (failure !== undefined || Object.keys(tally).length > 0) {
      const line = { kernel: this.#version, suite, title, ...tally, ...(failure !== undefined && { failure: true }) };
      appendFileSync(TALLY, `${JSON.stringify(line)}\n`);
    }
    const consoles = [this.#child, ...(other ? [other.#child] : [])].map(consoleEnd);
    if (failure !== undefined) throw new Error([failure, ...consoles].join("\n"));
  }

  /** Answers a call of the other machine's test: of this machine's power, or of a program inside. */
  async obey(order: { readonly call: string; readonly args: readonly unknown[] }): Promise<object> {
    if (order.call === "cutPower") await this.#kill();
    else if (order.call === "boot") await this.#boot();
    else return this.#ask(order, order.call);
    return {};
  }

  async #ask(line: object, what: string) {
    this.#socket?.write(`${JSON.stringify(line)}\n`);
    return JSON.parse(await this.#answer(what, this.timeoutMs));
  }

  async #answer(what: string, timeoutMs: number): Promise<string> {
    const { value } = await within(this.#child, what, this.#answers.next(), timeoutMs);
    if (value === undefined) throw new Error(`the port was closed\n${consoleEnd(this.#child)}`);
    return value;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kill();
    this.fileServer?.signal("SIGKILL");
    await this.fileServer?.exited;
    await new Promise((resolve) => this.server.close(resolve));
    rmSync(this.folder, { recursive: true });
  }
}

/** Without spaces, at which a kernel divides its command line. */
const SETTINGS = {
  /** A write that a drive does not answer holds a thread of the pool. */
  UV_THREADPOOL_SIZE: "64",
  DISKMESH_REPOSITORY: encodeURI(repositoryFolder),
  /** PATH of a virtual machine leads to its own programs. */
  DISKMESH_PATH: encodeURI(process.env.PATH ?? ""),
};

/** Returns the command line of a virtual machine without KVM, which not every machine has. */
async function qemu(
  { image, modules }: KernelFiles,
  {
    folder,
    port,
    seesMachine,
    cable,
  }: { folder: string; port: string; seesMachine: boolean; cable?: CableEnd | undefined },
): Promise<[string, ...string[]]> {
  const { bundleInto } = await import(join(repositoryFolder, "deploy/local/bootstrap/bundle.mjs"));
  const code = join(folder, "code");
  await bundleInto(repositoryFolder, relative(repositoryFolder, code), { entryPoints: [TRIALS] });
  const initramfs = join(folder, "initramfs");
  writeInitramfs(initramfs, { code, modules });
  // The kernel gives what it does not know to the first process: NAME=VALUE as environment, the rest after `--`.
  const settings = Object.entries(SETTINGS).map(([name, value]) => `${name}=${value}`);
  const kernelArgs = [
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check rdinit=/bin/node nvme_core.multipath=N",
    process.env.DISKMESH_KERNEL_OPTIONS ?? "",
    ...settings,
    "-- /code/main.js serve",
  ];
  // Under TCG a second processor may run code that the first one patches, which is an Oops.
  return [
    "qemu-system-x86_64",
    // The clock counts instructions, so that a busy machine makes the virtual one slow, and nothing late.
    ...["-icount", "shift=0"],
    ...["-accel", "tcg", "-cpu", `max,${SLOW_FEATURES.map((name) => `${name}=off`).join(",")}`, "-smp", "1"],
    ...(seesMachine ? sharedMemory(folder) : ["-m", "1024"]),
    ...["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"],
    ...Object.entries(FAILING).flatMap(([name, args]) => ["-blockdev", failingBlocks(name), ...args]),
    ...(cable ? cableEnd(cable) : []),
    ...["-kernel", image, "-initrd", initramfs, "-append", kernelArgs.join(" ")],
    ...[
      "-device",
      "virtio-serial",
      "-chardev",
      `socket,id=port,path=${port}`,
      "-device",
      "virtserialport,chardev=port",
    ],
  ];
}

/**
 * Returns the options of a machine's drive, and of its network device. Packets to a machine that does not run are lost. The
 * drive is not flushed to a drive of this machine, which may be busy, because the machine's end loses no write of its process.
 */
function cableEnd({ folder, number }: CableEnd): string[] {
  const drive = join(folder, `drive-${number}`);
  closeSync(openSync(drive, "a"));
  truncateSync(drive, DRIVE_BYTES);
  const [own, other] = [number, 3 - number].map((each) => join(folder, `end-${each}`));
  return [
    ...["-blockdev", `driver=file,node-name=lasting,filename=${drive},cache.no-flush=on`],
    ...["-device", "virtio-blk-pci,drive=lasting"],
    ...["-netdev", `dgram,id=cable,local.type=unix,local.path=${own},remote.type=unix,remote.path=${other}`],
    ...["-device", `virtio-net-pci,netdev=cable,romfile=,mac=52:54:00:00:00:0${number}`],
  ];
}

/** Returns a device without bytes that fails writes to sector FAILING_SECTOR, or all flushes. */
function failingBlocks(name: string): string {
  const failing = name === "flushes" ? "iotype=flush" : `iotype=write,sector=${FAILING_SECTOR}`;
  const error = `event=none,errno=5,${failing}`.replaceAll(/(^|,)/g, "$1inject-error.0.");
  return `driver=blkdebug,node-name=${name},image.driver=null-co,image.size=${4 * MIB_BYTES},image.read-zeroes=on,${error}`;
}

/** Serves the files of this machine read-only to a virtual machine. */
async function serveFiles(folder: string): Promise<Child> {
  const socket = fileSocket(folder);
  const args = [`--socket-path=${socket}`, "-o", "source=/,cache=always,sandbox=chroot"];
  const child = new Child({ name: "virtiofsd", command: FILE_SERVER, args, logFile: join(folder, "file-server") });
  const listening = eventually(() => existsSync(socket));
  await within(child, "virtiofsd does not listen", listening, FILE_SERVER_TIMEOUT_MS);
  return child;
}

function fileSocket(folder: string): string {
  return join(folder, "files");
}

/** Options of a virtual machine's memory, which the server of files shares. */
function sharedMemory(folder: string): string[] {
  return [
    ...["-m", "4096", "-machine", "pc,memory-backend=memory"],
    ...["-object", "memory-backend-memfd,id=memory,size=4G,share=on"],
    ...["-chardev", `socket,id=files,path=${fileSocket(folder)}`],
    ...["-device", "vhost-user-fs-pci,chardev=files,tag=machine"],
  ];
}

/** Resolves like `work`; rejects with the end of the console when the kernel ends or takes too long. */
async function within<Result>(child: Child, what: string, work: Promise<Result>, timeoutMs: number): Promise<Result> {
  const stop = new AbortController();
  const timedOut = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(new Error(`${what}: no answer within ${timeoutMs} ms`)), timeoutMs);
    stop.signal.addEventListener("abort", () => clearTimeout(timer));
  });
  const ended = child.exited.then(({ code, signal }) => {
    throw new Error(`${what}: the kernel's process ended (${signal ?? `exit code ${code}`})`);
  });
  try {
    return await Promise.race([work, timedOut, ended]);
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n${consoleEnd(child)}`);
  } finally {
    stop.abort();
  }
}

function consoleEnd(child: Child): string {
  return `the console's end:\n${child.output.slice(-CONSOLE_END_LENGTH).replaceAll("\r", "")}`;
}
