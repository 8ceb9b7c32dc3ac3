import { NotImplementedError } from "@diskmesh/domain";
import { surplusOf } from "../model/clean-up.js";
import { encodePersistentDisk } from "../wire.js";
import { empty, json, toTask } from "./answer.js";
import { bodyObject } from "./body.js";
import { orphanedDiskObject } from "./disk-objects.js";
import type { Route } from "./route.js";

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
        deployment: () => "",
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
      const { stemcells, disks } = await context.tablet.read((tables) => surplusOf(tables, scope));
      return json({
        ...NEVER_HERE,
        stemcells: stemcells.map((stemcell) => ({ ...stemcell, deployments: [] })),
        orphaned_disks: disks.map((disk) => orphanedDiskObject(encodePersistentDisk(disk))),
      });
    },
  },
  {
    method: "GET",
    path: "/resurrection",
    operation: "listInstances",
    serve: async () => json({ resurrection: false }),
  },
  {
    method: "PUT",
    path: "/resurrection",
    operation: "pauseResurrection",
    serve: async ({ request }) => {
      if (bodyObject(request).flag("resurrection_paused")) return empty(204);
      throw new NotImplementedError("this director makes no VM anew by itself: `bosh cloud-check --auto` does");
    },
  },
];

const NEVER_HERE = { releases: [], compiled_packages: [], orphaned_vms: [], exported_releases: [], dns_blobs: [] };
