import { getResurrection, updateResurrection } from "../../health/handlers.js";
import { surplusOf } from "../../stemcells/surplus.js";
import type { PossibleOrphan } from "../../store/possible-orphan.js";
import { empty, json, jsonLists, toTask } from "../answer.js";
import { bodyObject } from "../body.js";
import { bothOf, partsOf } from "../pages.js";
import type { Route } from "../route.js";
import { orphanedDiskObject, possiblyOrphanedDiskObject, possiblyOrphanedVmObject } from "./orphan-objects.js";

export const cleanUpRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/cleanup",
    operation: "cleanUp",
    serve: async ({ context, call, request }) => {
      const config = bodyObject(request).inner("config");
      const all = config.flag("remove_all");
      const keepOrphanedDisks = config.has("keep_orphaned_disks") && config.flag("keep_orphaned_disks");
      const { taskId } = await context.tasks.start(call, {
        job: { type: "clean_up", all, keepOrphanedDisks },
        queue: "normal",
        description: all ? "clean up all" : "clean up",
        deployment: "",
      });
      return toTask(taskId);
    },
  },
  {
    method: "GET",
    path: "/cleanup/dryrun",
    operation: "cleanUp",
    serve: async ({ context, query }) => {
      const isSet = (name: string): boolean => query.get(name) === "true";
      const scope = { all: isSet("remove_all"), keepOrphanedDisks: isSet("keep_orphaned_disks") };
      const { stemcells, disks, orphans } = await context.tablet.read((tables) => surplusOf(tables, scope));
      const ofKind = (kind: PossibleOrphan["kind"]) => orphans.filter((orphan) => orphan.kind === kind);
      return jsonLists({
        ...Object.fromEntries(NEVER_HERE.map((name) => [name, partsOf([], Object)])),
        stemcells: partsOf(stemcells, (stemcell) => ({ ...stemcell, deployments: [] })),
        orphaned_disks: bothOf(partsOf(disks, orphanedDiskObject), partsOf(ofKind("disk"), possiblyOrphanedDiskObject)),
        orphaned_vms: partsOf(ofKind("vm"), possiblyOrphanedVmObject),
      });
    },
  },
  {
    method: "GET",
    path: "/resurrection",
    operation: "getResurrection",
    serve: async ({ context }) => json({ resurrection: (await getResurrection(context)).enabled }),
  },
  {
    method: "PUT",
    path: "/resurrection",
    operation: "updateResurrection",
    serve: async ({ context, call, request }) => {
      const enabled = !bodyObject(request).flag("resurrection_paused");
      await updateResurrection(context, { wanted: { deployment: "", group: "", enabled } }, call);
      return empty(204);
    },
  },
];

const NEVER_HERE = ["releases", "compiled_packages", "exported_releases", "dns_blobs"];
