import { ProblemResolutionType } from "@diskmesh/api/director";
import { NotImplementedError, parseName } from "@diskmesh/domain";
import { listSnapshots, persistentDiskTasks, recordedDisks } from "../../disks/persistent/handlers.js";
import { listProblems, problemTasks } from "../../health/handlers.js";
import { resolutionNamed } from "../../health/wire.js";
import { selectInstances } from "../../instances/lifecycle.js";
import { instancesOf } from "../../instances/recorded-deployments.js";
import { lower } from "../../page/fleet-rows.js";
import type { PossibleOrphan } from "../../store/possible-orphan.js";
import { parseSelection } from "../../tasks/parse.js";
import { vmTasks } from "../../vms/handlers.js";
import { type Answer, jsonList } from "../answer.js";
import { bodyObject } from "../body.js";
import type { Context } from "../context.js";
import { BadRequestError } from "../http-error.js";
import { bothOf, pagesOf, partsOf } from "../pages.js";
import type { HttpCall, Route } from "../route.js";
import { timeText } from "../times.js";
import { orphanedDiskObject, possiblyOrphanedDiskObject, possiblyOrphanedVmObject } from "./orphan-objects.js";
import { startTask } from "./start-task.js";

/** Operators' actions on orphaned VMs, disks and snapshots. */
export const upkeepRoutes: readonly Route[] = [
  ...["/disks", "/orphan_disks"].map(
    (path): Route => ({ method: "GET", path, operation: "listPersistentDisks", serve: orphanedDisks }),
  ),
  {
    method: "PUT",
    path: "/disks/:cid/attachments",
    operation: "attachOrphanedDisk",
    serve: async (http) => {
      if (http.query.get("disk_properties") === "copy")
        throw new NotImplementedError("this director does not offer `disk_properties`: run the command without it");
      const instanceId = http.query.get("instance_id") ?? "";
      return startTask(http, persistentDiskTasks.attachOrphanedDisk, { diskCid: http.param("cid"), instanceId });
    },
  },
  ...["/disks/:cid", "/orphan_disks/:cid"].map(
    (path): Route => ({
      method: "DELETE",
      path,
      operation: "deleteOrphanedDisk",
      serve: async (http) => {
        const isOrphaned = http.query.get("orphan") === "true";
        if (isOrphaned) http.require("orphanPersistentDisk");
        const diskCid = http.param("cid");
        if (isOrphaned) return startTask(http, persistentDiskTasks.orphanPersistentDisk, { diskCid });
        const force = http.query.get("force") === "true";
        return startTask(http, persistentDiskTasks.deleteOrphanedDisk, { diskCid, force });
      },
    }),
  ),
  {
    method: "GET",
    path: "/orphaned_vms",
    operation: "listPossibleOrphans",
    serve: async ({ context }) => jsonList(partsOf(await possibleOrphans(context, "vm"), possiblyOrphanedVmObject)),
  },
  {
    method: "DELETE",
    path: "/vms/:cid",
    operation: "deleteVm",
    serve: (http) => startTask(http, vmTasks.deleteVm, { vmCid: http.param("cid") }),
  },
  {
    method: "GET",
    path: "/deployments/:deployment/snapshots",
    operation: "listSnapshots",
    serve: async ({ context, param }) => {
      const deployment = parseName("deployment", param("deployment"));
      const pages = pagesOf(
        (page) => listSnapshots(context, { ...page, deployment }),
        ({ snapshots }) =>
          snapshots.map(({ group, index, instanceId, snapshotCid, createTime }) => ({
            job: group,
            index,
            uuid: instanceId,
            snapshot_cid: snapshotCid,
            created_at: timeText(createTime),
            clean: false,
          })),
      );
      return jsonList(pages);
    },
  },
  {
    method: "POST",
    path: "/deployments/:deployment/snapshots",
    operation: "takeSnapshots",
    serve: async (http) => takeOf(http, ""),
  },
  {
    method: "POST",
    path: "/deployments/:deployment/jobs/:group/:instance/snapshots",
    operation: "takeSnapshots",
    serve: async (http) => takeOf(http, await instanceIdOf(http)),
  },
  ...["/deployments/:deployment/snapshots", "/deployments/:deployment/snapshots/:cid"].map(
    (path): Route => ({
      method: "DELETE",
      path,
      operation: "deleteSnapshots",
      serve: (http) => {
        const wanted = { deployment: http.param("deployment"), snapshotCid: http.param("cid") };
        return startTask(http, persistentDiskTasks.deleteSnapshots, wanted);
      },
    }),
  ),
  {
    method: "POST",
    path: "/deployments/:deployment/scans",
    operation: "scanDeployment",
    serve: (http) => startTask(http, problemTasks.scanDeployment, { deployment: http.param("deployment") }),
  },
  {
    method: "GET",
    path: "/deployments/:deployment/problems",
    operation: "listProblems",
    serve: async ({ context, param }) => {
      const pages = pagesOf(
        (page) => listProblems(context, { ...page, deployment: param("deployment") }),
        ({ problems }) =>
          problems.map(({ problemId, type, description, resolutions, instanceGroup }) => ({
            id: problemId,
            type: lower("PROBLEM_TYPE_", type),
            instance_group: instanceGroup,
            description,
            resolutions: resolutions.map(({ type, plan }) => ({ name: lower("PROBLEM_RESOLUTION_TYPE_", type), plan })),
          })),
      );
      return jsonList(pages);
    },
  },
  {
    method: "PUT",
    path: "/deployments/:deployment/problems",
    operation: "resolveProblems",
    serve: async (http) => {
      const body = bodyObject(http.request);
      if (Object.keys(body.optionalObject("max_in_flight_overrides") ?? {}).length > 0)
        throw new NotImplementedError(
          "this director resolves one problem at a time: leave out max_in_flight_overrides",
        );
      const chosen = body.optionalObject("resolutions") ?? {};
      const answers = Object.entries(chosen).map(([id, resolution]) => answerOf(id, resolution));
      const wanted = { deployment: http.param("deployment"), answers, auto: false };
      return startTask(http, problemTasks.resolveProblems, wanted);
    },
  },
];

async function orphanedDisks({ context }: HttpCall): Promise<Answer> {
  const pages = pagesOf(
    (page) => recordedDisks(context, { ...page, deployment: "", orphaned: true }),
    ({ items }) => items.map(orphanedDiskObject),
  );
  return jsonList(bothOf(pages, partsOf(await possibleOrphans(context, "disk"), possiblyOrphanedDiskObject)));
}

function possibleOrphans({ tablet }: Context, kind: PossibleOrphan["kind"]): Promise<PossibleOrphan[]> {
  return tablet.read((tables) => [...tables.possibleOrphans.entries()].filter((orphan) => orphan.kind === kind));
}

function takeOf(http: HttpCall, instanceId: string): Promise<Answer> {
  return startTask(http, persistentDiskTasks.takeSnapshots, { deployment: http.param("deployment"), instanceId });
}

/** Returns the id of an instance selected by its id or its index in the group. */
async function instanceIdOf({ context, param }: HttpCall): Promise<string> {
  const wanted = { deployment: param("deployment"), group: param("group"), instance: param("instance") };
  const { deployment, ...selection } = parseSelection(wanted);
  const [found] = await context.tablet.read((tables) => selectInstances(instancesOf(tables, deployment), selection));
  return found?.instanceId ?? "";
}

function answerOf(id: string, resolution: unknown) {
  if (!/^[1-9]\d{0,14}$/.test(id)) throw new BadRequestError("a problem's id is a number");
  // Clients send null to choose the default resolution.
  if (resolution === null) return { problemId: Number(id), resolution: ProblemResolutionType.UNSPECIFIED };
  const known = typeof resolution === "string" ? resolutionNamed(resolution) : undefined;
  if (known === undefined)
    throw new BadRequestError(
      `the resolution of problem ${id} is unknown: give the name of one that the problem lists`,
    );
  return { problemId: Number(id), resolution: known };
}
