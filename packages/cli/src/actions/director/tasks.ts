import { type Task, TaskState } from "@diskmesh/api/director";
import { allPages } from "@diskmesh/rpc";
import { type Columns, short, timeText } from "../../output/output.js";
import { type Action, textOption } from "../action.js";

const COLUMNS: Columns<Task> = {
  task: ({ taskId }) => taskId,
  state: ({ state }) => short(state),
  started: ({ startTime, createTime }) => timeText(startTime ?? createTime),
  ended: ({ endTime }) => timeText(endTime),
  user: ({ user }) => user,
  deployment: ({ deployment }) => deployment,
  description: ({ description }) => description,
  result: ({ result }) => result,
};

const NOT_ENDED = [TaskState.QUEUED, TaskState.PROCESSING, TaskState.CANCELLING, TaskState.HELD];
const RECENT = 30;

export const tasks: Action = {
  usage: "tasks",
  summary: "list the director's unfinished tasks, or the latest tasks",
  options: [
    ["--recent", `the latest ${RECENT} tasks, including ended tasks`],
    ["--deployment <name>", "only tasks of this deployment"],
  ],
  example: "diskmesh tasks --recent",
  run: async ({ mesh, output, options }) => {
    const deployment = textOption(options, "deployment");
    const found = options.recent
      ? (await mesh.tasks.listTasks({ deployment, pageSize: RECENT })).tasks
      : await allPages(async (pageToken) => {
          const page = await mesh.tasks.listTasks({ deployment, states: NOT_ENDED, pageToken });
          return { items: page.tasks, nextPageToken: page.nextPageToken };
        });
    output.list(COLUMNS, found, options.recent ? "no tasks" : "no tasks that have not ended");
  },
};
