import { execFile } from "node:child_process";
import { MethodError } from "@diskmesh/driver";

/** A drive's own health, as far as smartctl reports it for its kind. */
export interface Smart {
  readonly model: string;
  /** True when the drive calls itself healthy; undefined where it does not say. */
  readonly passed: boolean | undefined;
  readonly temperatureCelsius: number | undefined;
  readonly powerOnHours: number | undefined;
  readonly reallocatedSectors: number | undefined;
  readonly pendingSectors: number | undefined;
  /** Only for an NVMe drive. */
  readonly percentageUsed: number | undefined;
  readonly mediaErrors: number | undefined;
}

const TIMEOUT_MS = 15_000;
const MAX_OUTPUT_BYTES = 1024 * 1024;
const REALLOCATED = 5;
const PENDING = 197;

/** Throws MethodError with what the host lacks. */
export async function readSmart(file: string, smartctl = "smartctl"): Promise<Smart> {
  const output = await new Promise<string>((resolve, reject) => {
    const options = { timeout: TIMEOUT_MS, maxBuffer: MAX_OUTPUT_BYTES, killSignal: "SIGKILL" } as const;
    execFile(smartctl, ["--json", "--all", "--", file], options, (error, stdout) => {
      if (error?.code === "ENOENT")
        reject(new MethodError("unavailable", "the host has no smartctl: install smartmontools 7 or later"));
      // Its exit code is a set of bits, most of which are about the drive.
      else if (error && stdout === "") reject(new MethodError("unavailable", `smartctl failed: ${error.message}`));
      else resolve(stdout);
    });
  });
  return parseSmart(output, file);
}

type Tree = { readonly [name: string]: unknown };
const tree = (value: unknown): Tree => (typeof value === "object" && value !== null ? (value as Tree) : {});
const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

/** Parses the JSON that smartctl 7 writes. */
export function parseSmart(output: string, file: string): Smart {
  let all: Tree;
  try {
    all = tree(JSON.parse(output));
  } catch {
    throw new MethodError("unavailable", "smartctl wrote no JSON: install smartmontools 7 or later");
  }
  const nvme = tree(all.nvme_smart_health_information_log);
  const { table } = tree(all.ata_smart_attributes);
  const attribute = (id: number): number | undefined => {
    const found = Array.isArray(table) ? table.map(tree).find((each) => each.id === id) : undefined;
    return numberOf(tree(found?.raw).value);
  };
  const smart = {
    model: String(all.model_name ?? ""),
    passed: typeof tree(all.smart_status).passed === "boolean" ? (tree(all.smart_status).passed as boolean) : undefined,
    temperatureCelsius: numberOf(tree(all.temperature).current),
    powerOnHours: numberOf(tree(all.power_on_time).hours),
    reallocatedSectors: attribute(REALLOCATED),
    pendingSectors: attribute(PENDING),
    percentageUsed: numberOf(nvme.percentage_used),
    mediaErrors: numberOf(nvme.media_errors),
  };
  if (Object.values(smart).some((value) => value !== undefined && value !== "")) return smart;
  const messages = tree(all.smartctl).messages;
  const said = Array.isArray(messages) ? messages.map((each) => String(tree(each).string)).join("; ") : "";
  throw new MethodError("unavailable", `smartctl tells nothing of ${file}${said === "" ? "" : `: ${said}`}`);
}
