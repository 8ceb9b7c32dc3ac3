import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { CallContext, CpiConfig } from "@diskmesh/api/cpi";
import { messageOf } from "@diskmesh/domain";
import type { Random } from "../../random.js";
import type { FuzzTarget } from "../fuzz-target.js";
import { jsonText, randomBytes, spoilJson, strangeJson, strangeText } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";

export interface CpiInput {
  readonly method: (typeof METHODS)[number];
  /** Output of the CPI for `info`, and for the method; both in base64. */
  readonly info: string;
  readonly answer: string;
  readonly stderr: string;
  /** End of the CPI: an exit code, or a signal that it sends to itself. */
  readonly end: number | "KILL" | "SEGV";
}

const METHODS = [
  "info",
  "has_vm",
  "get_disks",
  "create_disk",
  "update_disk",
  "attach_disk",
  "create_vm",
  "calculate_vm_cloud_properties",
] as const;
const DIRECTOR_ID = "fuzz-cpi";
const CPI = "printer";

// The script prints files beside it, because texts within the script would have to be quoted for the shell.
const SCRIPT = `#!/bin/sh
here=$(dirname "$0")
case "$(cat)" in *'"method":"info"'*) cat "$here/info" ;; *) cat "$here/answer" ;; esac
cat "$here/stderr" >&2
. "$here/end"
`;

const INFO = { result: { api_version: 2, stemcell_formats: ["raw"] }, error: null, log: "" };
const RESULTS: Readonly<Record<(typeof METHODS)[number], unknown>> = {
  info: INFO.result,
  has_vm: true,
  get_disks: ["disk-1", "disk-2"],
  create_disk: "disk-1",
  update_disk: "disk-1",
  attach_disk: "/dev/sdb",
  create_vm: ["vm-1", { a: { ip: "10.0.0.1", type: "manual" } }],
  calculate_vm_cloud_properties: { cpu: 1 },
};
const ERROR = { type: "Bosh::Clouds::CloudError", message: "no", ok_to_retry: true };

/** A CPI executable with arbitrary answers, and a dispatcher that runs it. */
export class CpiAnswersSurface implements Surface {
  readonly name = "cpi-answers";
  readonly atOnce = 1;
  readonly counts = new Counts();
  readonly #dispatcher;
  readonly #execPath: string;
  #told = { info: "", version: 0 };

  constructor(target: FuzzTarget) {
    this.#dispatcher = target.dispatcherClient();
    this.#execPath = target.executable(CPI, SCRIPT);
  }

  next(random: Random): Buffer {
    const method = random.pick(METHODS);
    const base = { result: RESULTS[method], error: null, log: "" };
    const answer = random.chance(0.2) ? { ...base, result: null, error: ERROR } : base;
    const spoiled = random.chance(0.7) ? spoilJson(random, answer) : answer;
    const input: CpiInput = {
      method,
      info: (random.chance(0.8)
        ? Buffer.from(JSON.stringify(INFO))
        : jsonText(random, spoilJson(random, INFO))
      ).toString("base64"),
      answer: (random.chance(0.93) ? jsonText(random, spoiled) : other(random)).toString("base64"),
      stderr: Buffer.from(random.chance(0.8) ? "a line\n" : noise(random)).toString("base64"),
      end: random.chance(0.85) ? 0 : random.pick([1, 2, 127, 255, "KILL", "SEGV"] as const),
    };
    return Buffer.from(JSON.stringify(input));
  }

  async send(input: Buffer): Promise<void> {
    const { method, info, answer, stderr, end } = JSON.parse(input.toString()) as CpiInput;
    const folder = dirname(this.#execPath);
    for (const [name, bytes] of Object.entries({ info, answer, stderr }))
      writeFileSync(join(folder, name), Buffer.from(bytes, "base64"));
    writeFileSync(join(folder, "end"), typeof end === "number" ? `exit ${end}\n` : `kill -${end} $$\n`);
    try {
      await this.#tell(info);
      await this.#call(method);
      this.counts.add(`${method} taken`);
    } catch (error) {
      const message = messageOf(error);
      if (/internal error; the server/.test(message))
        throw new Find(`an answer to ${method} is a bug to the dispatcher: ${message}`);
      this.counts.add((error as Error).name);
    }
  }

  /**
   * Changes the cpi-config, because the dispatcher asks a CPI for `info` only once for each version of the cpi-config.
   */
  async #tell(info: string): Promise<void> {
    if (this.#told.info === info && this.#told.version > 0) return;
    const version = this.#told.version + 1;
    const cpis = [CpiConfig.fromPartial({ name: CPI, type: CPI, execPath: this.#execPath, properties: {} })];
    await this.#dispatcher.setCpiConfig({
      directorId: DIRECTOR_ID,
      directorGeneration: 1,
      cpiConfigVersion: `v${version}`,
      cpis,
    });
    this.#told = { info, version };
  }

  async #call(method: CpiInput["method"]): Promise<unknown> {
    const asked = { cpi: CPI, directorId: DIRECTOR_ID, directorGeneration: 1, requestId: "fuzz" };
    const context = CallContext.fromPartial({ ...asked, cpiConfigVersion: `v${this.#told.version}` });
    const dispatcher = this.#dispatcher;
    switch (method) {
      case "info":
        return dispatcher.info({ context });
      case "has_vm":
        return dispatcher.hasVm({ context, vmCid: "vm-1" });
      case "get_disks":
        return dispatcher.getDisks({ context, vmCid: "vm-1" });
      case "create_disk":
        return dispatcher.createDisk({ context, sizeMib: 1, cloudProperties: {}, vmCid: "vm-1", token: "t" });
      case "update_disk":
        return dispatcher.updateDisk({ context, diskCid: "disk-1", sizeMib: 1, cloudProperties: {} });
      case "attach_disk":
        return dispatcher.attachDisk({ context, vmCid: "vm-1", diskCid: "disk-1" });
      case "create_vm":
        return dispatcher.createVm({
          context,
          agentId: "a",
          stemcellCid: "s",
          cloudProperties: {},
          networks: {},
          env: {},
        });
      default:
        return dispatcher.calculateVmCloudProperties({ context, desired: {} });
    }
  }
}

function other(random: Random): Buffer {
  return random.pick([
    () => Buffer.alloc(0),
    () => randomBytes(random, 100),
    () => Buffer.from(JSON.stringify({ result: "x".repeat(1_100_000), error: null, log: "" })),
    () => jsonText(random, strangeJson(random)),
    () => Buffer.from('{"result":null,"error":null,"log":""}\n{"result":1,"error":null,"log":""}'),
  ])();
}

function noise(random: Random): string {
  return random.pick([strangeText(random), "x".repeat(100_000), "\n".repeat(10_000), `${"line\r\n".repeat(2_000)}`]);
}
