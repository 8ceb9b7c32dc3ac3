import type { ListChangesResponse, ObjectChange } from "@diskmesh/api/registry";
import { quoted } from "@diskmesh/domain";
import { cidOfDisk } from "../../mesh/disk-names.js";
import { UsageError } from "../../output/exit-codes.js";
import { type Columns, timeText } from "../../output/output.js";
import { countOf } from "../../output/values.js";
import { type Action, textOption } from "../action.js";

const KINDS = ["device", "disk", "host"] as const;

const MAX_LISTED = 1_000;

const COLUMNS: Columns<ObjectChange> = {
  time: ({ commitTime }) => timeText(commitTime),
  commit: ({ commit }) => commit,
  cause: ({ cause }) => cause,
  change: ({ details }) => details.join("; "),
};

export const journal: Action = {
  usage: "journal <kind> <name>",
  summary: `list each kept change of an object with its time, commit and cause, newest first: ${KINDS.join(", ")}`,
  kinds: KINDS,
  options: [["--limit <count>", `maximum number of changes, up to ${MAX_LISTED} (100)`]],
  example: "diskmesh journal device host-1-device-1",
  run: async ({ mesh, output, options, args: [typed = "", name = ""] }) => {
    const kind = KINDS.find((each) => each === typed);
    if (kind === undefined) throw new UsageError(`${quoted(typed)} is none of ${KINDS.join(", ")}`);
    const limit = countOf("limit", textOption(options, "limit") || "100", MAX_LISTED);
    const id = kind === "disk" ? await cidOfDisk(mesh, name) : name;
    const changes: ObjectChange[] = [];
    let page: ListChangesResponse | undefined;
    do {
      const pageSize = limit - changes.length;
      page = await mesh.registry.listChanges({ [`${kind}Id`]: id, pageSize, pageToken: page?.nextPageToken ?? "" });
      changes.push(...page.changes);
    } while (page.nextPageToken !== "" && changes.length < limit);
    output.list(COLUMNS, changes, "no change is kept");
    output.say(extentText(page, id));
  },
};

/** Says from when on changes are kept, and what else tells the past. */
function extentText(page: ListChangesResponse, id: string): string {
  const events = `diskmesh events --thing ${id}`;
  if (!page.areKept) return `the registry's store is a database, which keeps no changes: see ${events}`;
  if (page.nextPageToken !== "") return "older changes are kept, too: give a higher --limit";
  if (page.isComplete) return "all changes since the registry's store was made are kept";
  const since = page.keptFromTime === undefined ? "the oldest kept journal" : timeText(page.keptFromTime);
  return `changes before ${since} are not kept any more: see ${events}`;
}
