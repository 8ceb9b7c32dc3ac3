import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import { endsWithParent, eventually, freePort, temporaryFolder } from "@diskmesh/testkit";
import { MongoClient } from "mongodb";

/** A MongoDB-compatible server for tests. */
export interface DocumentDatabase {
  readonly title: string;
  /** URL without a database name. */
  readonly url: string;
  /** Undefined for a server that the tests did not start. */
  readonly process?: DatabaseProcess;
}

/** Address on which the test server listens, and a command that execs the server, e.g. `nsenter` with its options. */
export interface DatabasePlace {
  readonly host: string;
  readonly launcher: readonly string[];
}

const LOCAL: DatabasePlace = { host: "127.0.0.1", launcher: [] };

const SOURCE = fileURLToPath(new URL("../../../src/mongo/testing/", import.meta.url));
const CACHE = fileURLToPath(new URL("../../../../../.cache/", import.meta.url));
const FETCH_TIMEOUT_MS = 5 * 60_000;
const PAUSE_AFTER_FAILED_FETCH_MS = 5_000;
const START_TIMEOUT_MS = 60_000;

let found: Promise<DocumentDatabase | string> | undefined;

/**
 * Returns the server shared by all tests of this process, or the reason why there is none. Restarts it if a test killed
 * it.
 */
export async function documentDatabase(): Promise<DocumentDatabase | string> {
  found ??= newDocumentDatabase(LOCAL);
  const database = await found;
  if (typeof database !== "string" && database.process?.hasEnded) await database.process.start();
  return database;
}

/** Returns a new server, or the one named in the environment, or the reason why there is none. */
export async function newDocumentDatabase(place: DatabasePlace): Promise<DocumentDatabase | string> {
  try {
    return await find(place);
  } catch (error) {
    return `no MongoDB-compatible server could be started: ${messageOf(error)}`;
  }
}

/** Required programs. `javac` proves that the compiler is installed, which a mere Java runtime lacks. */
const JAVA_PROGRAMS = ["java", "javac", "mvn"];

/**
 * Downloads the files that a server needs while the network is available. Reports no problems; starting the server
 * does.
 */
export async function fetchDocumentDatabase(): Promise<void> {
  if (!process.env.DISKMESH_TEST_MONGODB_URL && !isOnPath("mongod") && hasJavaServer()) await javaClasses();
}

async function find(place: DatabasePlace): Promise<DocumentDatabase | string> {
  const url = process.env.DISKMESH_TEST_MONGODB_URL;
  if (url) return { title: "the server of DISKMESH_TEST_MONGODB_URL", url };
  if (isOnPath("mongod")) return startMongod(place);
  const missing = JAVA_PROGRAMS.filter((program) => !isOnPath(program));
  if (missing.length === 0) return startJavaServer(undefined, place);
  return `DISKMESH_TEST_MONGODB_URL is not set, mongod is not on PATH, nor is ${missing.join(", nor ")} for mongo-java-server`;
}

async function startMongod({ host, launcher }: DatabasePlace): Promise<DocumentDatabase> {
  const [folder, port] = [temporaryFolder(), await freePort()];
  // A replica set with one member, because read and write concerns have no effect without one.
  const args = ["--dbpath", folder, "--port", `${port}`, "--bind_ip", host, "--replSet", "test"];
  const process = new DatabaseProcess([...launcher, "mongod", ...args], "Waiting for connections");
  await process.start();
  const address = `${host}:${port}`;
  const client = new MongoClient(`mongodb://${address}/?directConnection=true`);
  try {
    await client.db("admin").command({ replSetInitiate: { _id: "test", members: [{ _id: 0, host: address }] } });
    await eventually(async () => (await client.db("admin").command({ hello: 1 })).isWritablePrimary === true, {
      timeoutMs: START_TIMEOUT_MS,
    });
  } finally {
    await client.close();
  }
  return { title: "mongod", url: `mongodb://${address}`, process };
}

/** Starts the Java server. Version "old" starts a version that the current driver refuses. */
export async function startJavaServer(
  version?: "old",
  { host, launcher }: DatabasePlace = LOCAL,
): Promise<DocumentDatabase> {
  const [folder, port, classes] = [temporaryFolder(), await freePort(), await javaClasses()];
  // The optimizing compiler costs more time than it saves in a short test.
  const options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", `${classes}${delimiter}${join(classes, "*")}`];
  const args = [...options, "DocumentDatabase", join(folder, "data"), host, `${port}`];
  const process = new DatabaseProcess([...launcher, "java", ...args, ...(version ? [version] : [])], "ready");
  await process.start();
  const url = `mongodb://${host}:${port}`;
  if (version !== "old") await answered(url);
  return { title: "mongo-java-server", url, process };
}

/** Waits for the first answer, which on a busy machine takes longer than the timeouts of services. */
async function answered(url: string): Promise<void> {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: START_TIMEOUT_MS });
  try {
    await client.db("admin").command({ ping: 1 });
  } finally {
    await client.close();
  }
}

export function hasJavaServer(): boolean {
  return JAVA_PROGRAMS.every(isOnPath);
}

/** Returns a folder with the libraries and the compiled source, created once per content of the source. */
async function javaClasses(): Promise<string> {
  const source = join(SOURCE, "DocumentDatabase.java");
  const hash = createHash("sha256")
    .update(await readFile(source))
    .digest("hex");
  const classes = join(CACHE, `mongo-java-server-1.47.0-${hash.slice(0, 12)}`);
  if (existsSync(classes)) return classes;
  const repository = join(CACHE, "maven");
  await mkdir(repository, { recursive: true });
  // Maven's repository does not support concurrent processes, so concurrent tests take turns.
  using _lock = await eventually(() => FolderLock.take(repository), { timeoutMs: 2 * FETCH_TIMEOUT_MS });
  if (existsSync(classes)) return classes;
  // Renamed into place at the end, so that an existing folder is always complete.
  const folder = await mkdtemp(join(CACHE, "fetching-"));
  try {
    const made = join(folder, "classes");
    await fetchLibraries(repository, made).catch(async () => {
      // Waits before another attempt, because a network failure may be temporary.
      await delay(PAUSE_AFTER_FAILED_FETCH_MS);
      await fetchLibraries(repository, made);
    });
    const libraries = (await readdir(made)).map((name) => join(made, name)).join(delimiter);
    const compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", made, "-cp", libraries, source];
    await promisify(execFile)("java", compiler, { timeout: FETCH_TIMEOUT_MS });
    await rename(made, classes);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return classes;
}

async function fetchLibraries(repository: string, folder: string): Promise<void> {
  // With -U Maven asks again for artifacts that were missing before.
  const options = ["-q", "-B", "-U", "-f", join(SOURCE, "pom.xml"), `-Dmaven.repo.local=${repository}`];
  const goal = ["dependency:copy-dependencies", `-DoutputDirectory=${folder}`];
  await promisify(execFile)("mvn", [...options, ...goal], { timeout: FETCH_TIMEOUT_MS }).catch((error) => {
    // Maven writes its errors to standard output.
    throw new Error(`mvn did not fetch the libraries of ${SOURCE}pom.xml: ${error.stdout || messageOf(error)}`);
  });
}

/** A server that can be killed and restarted on the same data and port. */
export class DatabaseProcess {
  #child: ChildProcess | undefined;
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #readyWhenSaid: string;

  constructor(commandLine: readonly string[], readyWhenSaid: string) {
    const [command = "", ...args] = [...endsWithParent(), ...commandLine];
    this.#command = command;
    this.#args = args;
    this.#readyWhenSaid = readyWhenSaid;
    process.once("exit", () => this.#child?.kill("SIGKILL"));
  }

  async start(): Promise<void> {
    const child = spawn(this.#command, this.#args, { stdio: ["pipe", "pipe", "pipe"] });
    this.#child = child;
    let output = "";
    await new Promise<void>((resolve, reject) => {
      const onOutput = (chunk: Buffer): void => {
        output += chunk;
        if (output.includes(this.#readyWhenSaid)) resolve();
      };
      child.stdout.on("data", onOutput);
      child.stderr.on("data", onOutput);
      child.once("error", reject);
      child.once("exit", (code, signal) =>
        reject(new Error(`${this.#command} ended with ${code ?? signal}: ${output}`)),
      );
      setTimeout(() => reject(new Error(`${this.#command} is not ready: ${output}`)), START_TIMEOUT_MS).unref();
    });
    // The output must be read, because a full pipe would block the server.
    child.stdout.removeAllListeners("data").resume();
    child.stderr.removeAllListeners("data").resume();
    // The server must not keep the test process alive.
    child.unref();
    for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as unknown as { unref(): void }).unref();
  }

  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error(`${this.#command} was not started`);
    return this.#child.pid;
  }

  get hasEnded(): boolean {
    return this.#child === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || this.hasEnded) return;
    child.ref();
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }
}

function isOnPath(program: string): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => folder !== "" && existsSync(join(folder, program)));
}
