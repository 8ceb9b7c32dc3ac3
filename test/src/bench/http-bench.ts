import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { HttpClient, manifest, startHttpDirector, startHttpNoop } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { type Measurement, measurement, p99, ratePerSecond } from "./measure.js";
import { startPollingClis } from "./polling-clis.js";

const LOAD = { concurrency: 4, durationMs: 8_000, warmupMs: 2_000 };
const CLIS = 16;
/** Pause in ms of the stock CLI after each round of polling. */
const CLI_PAUSE_MS = 500;
const NO_PAUSE_MS = 0;
/** Number of measured blocks of each kind; the kinds alternate. */
const BLOCKS = 8;
const PROVIDES_IN_BLOCK = 50;
const GIB_BYTES = 1_024 * MIB_BYTES;
const STEMCELL_BYTES = 2 * GIB_BYTES;
const LISTED = 10_000;
const MEMORY_LIMIT_MIB = 64;
/** Timeout for a slow CPI, whose deploy the polling CLIs wait for. */
const PATIENT = { cpi: { callTimeoutMs: 900_000 } };
const TUNING = {
  http: { requestTimeoutMs: 120_000 },
  stemcells: { idleTimeoutMs: 600_000 },
  /** Keeps all tasks that the list request returns. */
  tasks: { maxKeptTasks: 2 * LISTED },
};

type Director = Awaited<ReturnType<typeof startHttpDirector>>;

/** Measures the HTTPS API against a fastify server without work, and its effect on other callers. */
export async function benchHttp(report: (line: string) => void): Promise<Measurement[]> {
  const mesh = await startHttpDirector({}, { ...PATIENT, log: { level: "warn" }, tuning: TUNING });
  try {
    const instanceId = (await mesh.director.deploy("bench", 1))[0] ?? "";
    const measurements: Measurement[] = [];
    const keep = (...found: readonly Measurement[]): void => {
      measurements.push(...found);
      // Reports the results now, because the next measurements take minutes and may be interrupted.
      for (const { name, value, unit, ratio } of found)
        report(`${name}: ${value.toFixed(1)} ${unit}, ${ratio.toFixed(2)}`);
    };
    keep(...(await rates(mesh)));
    report("provides, with and without others that poll");
    keep(...(await besideClis(mesh, instanceId)));
    report(`a stemcell of ${STEMCELL_BYTES / GIB_BYTES} GiB`);
    keep(await stemcell(mesh));
    report(`a list of ${LISTED}`);
    keep(...(await list(mesh)));
    return measurements;
  } finally {
    await mesh.director.stop();
  }
}

/** Measures requests that each use their own connection, like the CLI's. */
async function rates({ director, http }: Director): Promise<Measurement[]> {
  await using noop = await startHttpNoop(director.certs.files("director"));
  const bare = new HttpClient(director.certs, noop.port, "");
  const range = { headers: { range: "bytes=0-" } };
  const paths = { task: "/tasks/1", events: "/tasks/1/output?type=event" };
  const floor = await ratePerSecond(LOAD, () => bare.send("GET", "/noop"));
  const measured: Measurement[] = [];
  for (const [name, path] of Object.entries(paths)) {
    const value = await ratePerSecond(LOAD, () => http.send("GET", path, name === "events" ? range : {}));
    const budget = { atLeast: 0.5 };
    measured.push(measurement({ name: `http_${name}`, value, unit: "requests/s", floor, floorOf: "fastify", budget }));
  }
  return measured;
}

async function besideClis({ director, http }: Director, instanceId: string): Promise<Measurement[]> {
  const gate = director.cpi.gate("createVm", "before");
  const { task } = await director.deployments.deploy({ manifest: manifest("awaited", 1) });
  await gate.reached;
  const { caFile } = director.certs.files("operator");
  const options = { caFile, port: http.port, login: http.login, taskId: task?.taskId ?? 0, clis: CLIS };
  await using clis = await startPollingClis(options);
  const times = { without: [] as number[], polled: [] as number[], hammered: [] as number[] };
  const beside = async (pauseMs: number, into: number[]): Promise<void> => {
    await clis.poll(pauseMs);
    into.push(...(await provideTimes(director, instanceId)));
    if ((await clis.stop()) === 0) throw new Error("no CLI has polled meanwhile");
  };
  await provideTimes(director, instanceId);
  for (let block = 0; block < BLOCKS; block++) {
    times.without.push(...(await provideTimes(director, instanceId)));
    await beside(CLI_PAUSE_MS, times.polled);
    await beside(NO_PAUSE_MS, times.hammered);
  }
  gate.release();
  const floor = p99(times.without);
  const measured = { unit: "ms", floor, floorOf: "p99 without" };
  return [
    measurement({
      ...measured,
      name: `http_provide_p99_of_${CLIS}_clis`,
      value: p99(times.polled),
      budget: { atMost: 1.5 },
    }),
    // Has no budget, because no real client polls without a pause. The result depends on the CPU time that these
    // clients leave.
    measurement({
      ...measured,
      name: `http_provide_p99_of_${CLIS}_without_pause`,
      value: p99(times.hammered),
      budget: undefined,
    }),
  ];
}

/** Returns the durations of provides one after another; each disk is detached again. */
async function provideTimes(director: Director["director"], instanceId: string): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < PROVIDES_IN_BLOCK; index++) {
    const startedAtMs = performance.now();
    await director.provide("polled", instanceId);
    times.push(performance.now() - startedAtMs);
    await director.detach("polled");
  }
  return times;
}

async function stemcell(mesh: Director): Promise<Measurement> {
  const peak = await memoryOf(mesh, async () => {
    const status = await upload(mesh);
    if (status !== 302) throw new Error(`the stemcell was answered with ${status}`);
  });
  return memory("http_stemcell_memory", peak);
}

function memory(name: string, value: number): Measurement {
  const floorOf = "the most that is allowed";
  return measurement({ name, value, unit: "MiB", floor: MEMORY_LIMIT_MIB, floorOf, budget: { atMost: 1 } });
}

/** Returns the largest growth of the director's memory during `work`, in MiB. */
async function memoryOf({ director }: Director, work: () => Promise<void>): Promise<number> {
  const { pid } = director.process;
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1_024;
  const before = field("VmRSS");
  // Resets the peak of the resident memory.
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
  await work();
  return field("VmHWM") - before;
}

async function upload({ director, http }: Director): Promise<number | undefined> {
  const block = Buffer.alloc(MIB_BYTES, "not all equal ");
  const blocks = STEMCELL_BYTES / MIB_BYTES;
  const sha1 = createHash("sha1");
  for (let index = 0; index < blocks; index++) sha1.update(block);
  const text = JSON.stringify({ name: "large", version: "1", sha1: sha1.digest("hex"), api_version: 3 });
  function* tar(): Generator<Buffer> {
    yield header("stemcell.MF", text.length);
    yield Buffer.concat([Buffer.from(text)], Math.ceil(text.length / 512) * 512);
    yield header("image", STEMCELL_BYTES);
    for (let index = 0; index < blocks; index++) yield block;
    yield Buffer.alloc(1_024);
  }
  const authorization = `Basic ${Buffer.from(http.login).toString("base64")}`;
  const headers = { authorization, "content-type": "application/x-compressed", "transfer-encoding": "chunked" };
  const place = { host: "127.0.0.1", port: http.port, method: "POST", path: "/stemcells", headers, agent: false };
  const sending = request({ ...place, ca: readFileSync(director.certs.files("operator").caFile) });
  const answered = new Promise<number | undefined>((resolve, reject) => {
    sending.once("response", (response) => resolve(response.resume().statusCode));
    sending.once("error", reject);
  });
  // Compression level 0, so that all bytes go over the wire.
  await pipeline(Readable.from(tar()), createGzip({ level: 0 }), sending);
  return answered;
}

function header(name: string, sizeBytes: number): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0);
  block.write("0000644\0", 100);
  block.write(`${sizeBytes.toString(8).padStart(11, "0")}\0`, 124);
  block.write("        0", 148);
  block.write("ustar\x0000", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

async function list(mesh: Director): Promise<Measurement[]> {
  const { director, http } = mesh;
  let made = 0;
  const maker = async (): Promise<void> => {
    while (made < LISTED) {
      const diskName = `listed-${made++}`;
      await director.disks.createDisk({
        diskName,
        deployment: "bench",
        az: "z1",
        diskPoolName: "fast",
        sizeBytes: 1,
        wait: true,
      });
    }
  };
  director.cpi.capacityMib = LISTED * 10;
  await Promise.all(Array.from({ length: 32 }, maker));
  const measured: Measurement[] = [];
  for (const [name, path] of [
    ["disks", "/dynamic_disks"],
    ["tasks", `/tasks?verbose=2&limit=${LISTED}`],
  ] as const) {
    const peak = await memoryOf(mesh, async () => {
      const count = ((await http.json(path)) as object[]).length;
      if (count < LISTED) throw new Error(`${path} has ${count} of ${LISTED}`);
    });
    measured.push(memory(`http_list_of_${name}_memory`, peak));
  }
  return measured;
}
