import type { GetTaskOutputRequest, GetTaskOutputResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, quoted } from "@diskmesh/domain";
import { LIST_LIMITS, parsePageSize } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { hasEnded } from "../model/task.js";
import { parseTaskId } from "./parse.js";

const TYPES = ["event", "result", "debug", "cpi"] as const;
type Type = (typeof TYPES)[number];

export async function getTaskOutput(
  context: TaskContext,
  request: GetTaskOutputRequest,
): Promise<GetTaskOutputResponse> {
  const taskId = parseTaskId(request.taskId);
  const type = parseType(request.type);
  const from = request.fromLine;
  if (from < 0)
    throw new InvalidArgumentError(`from_line is ${from}: it must not be negative`, {
      about: { field: "from_line" },
    });
  const limit = parsePageSize(request.maxLines, LIST_LIMITS, "max_lines");
  // Before the lines: a task that has ended has all of them.
  const task = await context.tasks.get(taskId);
  const ended = hasEnded(task);
  const putOut = await context.taskLog.readLines(task, type, from, limit);
  // Only some kinds of tasks have more to say than how they ended.
  const hasOwn = type !== "result" || putOut.length > 0 || from > 0;
  const lines = hasOwn || !ended || task.result === "" ? putOut : [task.result];
  return { lines, nextLine: from + lines.length, complete: ended && lines.length < limit };
}

function parseType(value: string): Type {
  const type = TYPES.find((each) => each === value);
  if (type !== undefined) return type;
  throw new InvalidArgumentError(`type ${quoted(value)} is not known: give one of ${TYPES.join(", ")}`, {
    about: { field: "type" },
  });
}
