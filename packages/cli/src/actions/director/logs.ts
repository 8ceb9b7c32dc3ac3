import { renameSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { LogType } from "@diskmesh/api/director";
import { messageOf, quoted } from "@diskmesh/domain";
import { UsageError } from "../../output/exit-codes.js";
import { sizeText } from "../../output/output.js";
import { writePieces } from "../../output/pieces.js";
import { type Action, textOption } from "../action.js";
import { followToDone } from "../task-run.js";

const TYPES: Readonly<Record<string, LogType>> = {
  job: LogType.JOB,
  agent: LogType.AGENT,
  system: LogType.SYSTEM,
};

export const logs: Action = {
  usage: "logs <deployment> [instance]",
  summary: "fetch logs of instances into a tgz: all instances, or a GROUP, GROUP/INDEX or GROUP/ID",
  options: [
    ["--type <types>", "log types, separated by commas: job, agent, system (job)"],
    ["--only <globs>", "only these files, separated by commas, such as web/*.log"],
    ["--dir <folder>", "target folder (.)"],
  ],
  example: "diskmesh logs demo vm/0 --type agent,system",
  isOpenEnded: true,
  run: async (call) => {
    const { mesh, output, options, args, signal } = call;
    const [deployment = "", which = ""] = args;
    const [group = "", instance = "", ...more] = which.split("/");
    if (more.length > 0) throw new UsageError(`${quoted(which)} is neither GROUP nor GROUP/INDEX nor GROUP/ID`);
    const logTypes = listOf(textOption(options, "type")).map((type) => {
      const known = Object.hasOwn(TYPES, type) ? TYPES[type] : undefined;
      if (known === undefined) throw new UsageError(`--type must be one or more of ${Object.keys(TYPES).join(", ")}`);
      return known;
    });
    const folder = folderOf(resolve(textOption(options, "dir") || "."));
    const filters = listOf(textOption(options, "only"));
    const selection = { deployment, group, instance };
    const { task } = await mesh.vms.fetchLogs({ selection, logTypes, filters });
    const { taskId } = await followToDone(call, task);
    const name = [deployment, group, instance, taskId].filter((part) => part !== "").join("-");
    const file = join(folder, `${name}.tgz`);
    const draft = `${file}.part`;
    try {
      await writePieces("the logs", draft, () => mesh.vms.downloadLogs({ taskId }, { signal }));
      renameSync(draft, file);
    } finally {
      rmSync(draft, { force: true });
    }
    const sizeBytes = statSync(file).size;
    output.answer({ file, sizeBytes, taskId }, `${file}: ${sizeText(sizeBytes)}`);
  },
};

/** Validates the folder before the request, because an agent takes long to pack logs. */
function folderOf(path: string): string {
  try {
    if (statSync(path).isDirectory()) return path;
  } catch (error) {
    throw new UsageError(`cannot write the logs: ${messageOf(error)}`);
  }
  throw new UsageError(`cannot write the logs: ${quoted(path)} is not a folder`);
}

function listOf(text: string): string[] {
  return text.split(",").filter(Boolean);
}
