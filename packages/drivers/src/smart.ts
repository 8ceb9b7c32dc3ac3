import { execFile } from "node:child_process";
import { MethodError } from "@diskmesh/driver";

/** Health that a drive reports through smartctl. Which fields are set depends on the kind of drive. */
export interface Smart {
  readonly model: string;
  /** Overall result of the drive's self-assessment; undefined when it reports none. */
  readonly passed: boolean | undefined;
  readonly temperatureCelsius: number | undefined;
  readonly powerOnHours: number | undefined;
  readonly reallocatedSectors: number | undefined;
  readonly pendingSectors: number | undefined;
  /** Reported by NVMe drives only. */
  readonly percentageUsed: number | undefined;
  readonly mediaErrors: number | undefined;
}

const TIMEOUT_MS = 15_000;
const MAX_OUTPUT_BYTES = 1024 * 1024;
const REALLOCATED = 5;
const PENDING = 197;

/** Runs smartctl on a device file. Throws MethodError when smartctl is missing or fails. */
export async function readSmart(file: string, smartctl = "smartctl"): Promise<Smart> {
  const output = await new Promise<string>((resolve, reject) => {
    const options = { timeout: TIMEOUT_MS, maxBuffer: MAX_OUTPUT_BYTES, killSignal: "SIGKILL" } as const;
    execFile(smartctl, ["--json", "--all", "--", file], options, (error, stdout) => {
      if (error?.code === "ENOENT")
        reject(new MethodError("unavailable", "the host has no smartctl: install smartmontools 7 or later"));
      // The exit code is not checked: it is a bit set in which most bits describe the drive, not a failure of smartctl.
      else if (error && stdout === "") reject(new MethodError("unavailable", `smartctl failed: ${error.message}`));
      else resolve(stdout);
    });
  });
  return parseSmart(output, file);
}

type Tree = { readonly [name: string]: unknown };
const tree = (value: unknown): Tree => (typeof value === "object" && value !== null ? (value as Tree) : {});
const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

/** Parses the JSON output of smartctl 7. */
export function parseSmart(output: string, file: string): Smart {
  let all: Tree;
  try {
    all = tree(JSON.parse(output));
  } catch {
    throw new MethodError("unavailable", "smartctl did not write JSON: install smartmontools 7 or later");
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
  throw new MethodError("unavailable", `smartctl reports nothing about ${file}${said === "" ? "" : `: ${said}`}`);
}
