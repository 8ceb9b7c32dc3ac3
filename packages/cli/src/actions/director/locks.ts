import type { Lock } from "@diskmesh/api/director";
import { allPages } from "@diskmesh/rpc";
import { type Columns, timeText } from "../../output/output.js";
import type { Action } from "../action.js";

const COLUMNS: Columns<Lock> = {
  type: ({ type }) => type,
  resource: ({ resource }) => resource,
  task: ({ taskId }) => taskId,
  until: ({ expireTime }) => timeText(expireTime),
  waiting: ({ waitingTaskIds }) => waitingTaskIds.join(" "),
};

export const locks: Action = {
  usage: "locks",
  summary: "list the director's locks, with holders and waiting tasks",
  example: "diskmesh locks",
  run: async ({ mesh, output }) => {
    const found = await allPages(async (pageToken) => {
      const page = await mesh.locks.listLocks({ pageToken });
      return { items: page.locks, nextPageToken: page.nextPageToken };
    });
    output.list(COLUMNS, found, "no locks");
  },
};
