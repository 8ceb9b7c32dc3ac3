import type { DynamicDisk } from "@diskmesh/api/director";
import { ExportKind, OnHostSilence } from "@diskmesh/api/registry";
import { InvalidArgumentError, MIB_BYTES, parseIoLimitsJson } from "@diskmesh/domain";
import { scopeOf } from "../../audit/asker.js";
import { getDynamicDiskCapacity } from "../../disks/dynamic/capacity.js";
import { dynamicDiskTasks, listDynamicDisks } from "../../disks/dynamic/handlers.js";
import { coversDisk, diskIn } from "../../instances/scope.js";
import { formatInstance } from "../../store/instance.js";
import { json, jsonList } from "../answer.js";
import { bodyObject, type Fields } from "../body.js";
import type { Context } from "../context.js";
import { pagesOf } from "../pages.js";
import type { HttpCall, Route } from "../route.js";
import { wholeMib } from "../sizes.js";
import { startTask } from "./start-task.js";

const MAX_SIZE_MIB = Math.floor(Number.MAX_SAFE_INTEGER / MIB_BYTES);

/** Matches any attachment, because clients of these routes do not distinguish attachments. */
const ANY_ATTACHMENT = { instanceId: "", hostId: "", attachmentId: "" };

export const diskRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/dynamic_disks",
    operation: "listDynamicDisks",
    teams: "own",
    serve: async ({ context, call, query }) => {
      const deployment = query.get("deployment") ?? "";
      const disks = pagesOf(
        (page) => listDynamicDisks(context, { ...page, deployment, instanceId: "", hostId: "" }, call),
        (response) => response.disks,
      );
      return jsonList(shown(context, disks));
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks",
    operation: "createDynamicDisk",
    teams: "own",
    serve: async (http) => {
      const fields = bodyObject(http.request);
      const deployment = fields.optionalText("deployment_name") ?? "";
      const hostId = fields.optionalText("host_id") ?? "";
      const az = hostId === "" ? fields.text("az") : (fields.optionalText("az") ?? "");
      const unset = { onHostSilence: OnHostSilence.UNSPECIFIED, exportKind: ExportKind.UNSPECIFIED };
      const place = { deployment, az, instanceId: fields.optionalText("instance_id") ?? "", hostId, ...unset };
      return startTask(http, dynamicDiskTasks.createDynamicDisk, { ...wantedDisk(fields), ...place });
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/provide",
    operation: "provideDynamicDisk",
    teams: "own",
    serve: async (http) => {
      const fields = bodyObject(http.request);
      const [place, readOnly] = [placeIn(fields), isReadOnly(fields)];
      return startTask(http, dynamicDiskTasks.provideDynamicDisk, { ...wantedDisk(fields), ...place, readOnly });
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/:name/attach",
    operation: "attachDynamicDisk",
    teams: "own",
    serve: async (http) => {
      const fields = bodyObject(http.request);
      const [place, metadata] = [placeIn(fields), fields.optionalObject("metadata")];
      const request = { diskName: http.param("name"), ...place, metadata, readOnly: isReadOnly(fields) };
      return startTask(http, dynamicDiskTasks.attachDynamicDisk, request);
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/:name/resize",
    operation: "resizeDynamicDisk",
    teams: "own",
    serve: async (http) => {
      const sizeBytes = sizeBytesIn(bodyObject(http.request));
      return startTask(http, dynamicDiskTasks.resizeDynamicDisk, { diskName: http.param("name"), sizeBytes });
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/:name/limits",
    operation: "setDynamicDiskLimits",
    teams: "own",
    serve: async (http) => {
      const limits = parseIoLimitsJson(bodyObject(http.request).optionalObject("limits"));
      return startTask(http, dynamicDiskTasks.setDynamicDiskLimits, { diskName: http.param("name"), limits });
    },
  },
  {
    method: "GET",
    path: "/dynamic_disks/capacity",
    operation: "getDynamicDiskCapacity",
    teams: "own",
    serve: async ({ context, call, query }) => {
      const [az, diskPoolName] = [query.get("az") ?? "", query.get("disk_pool_name") ?? ""];
      const request = { az, diskPoolName, pool: query.get("pool") ?? "" };
      const { totalBytes, freeBytes, maxDiskBytes } = await getDynamicDiskCapacity(context, request, call);
      return json({ total_bytes: totalBytes, free_bytes: freeBytes, max_disk_bytes: maxDiskBytes });
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/:name/detach",
    operation: "detachDynamicDisk",
    teams: "own",
    serve: (http) =>
      startTask(http, dynamicDiskTasks.detachDynamicDisk, { diskName: http.param("name"), ...ANY_ATTACHMENT }),
  },
  {
    method: "DELETE",
    path: "/dynamic_disks/:name",
    operation: "deleteDynamicDisk",
    teams: "own",
    serve: async (http) => {
      const diskName = await nameOf(http, http.param("name"));
      return startTask(http, dynamicDiskTasks.deleteDynamicDisk, { diskName, ...ANY_ATTACHMENT });
    },
  },
  {
    method: "POST",
    path: "/dynamic_disks/:name/undelete",
    operation: "undeleteDynamicDisk",
    teams: "own",
    serve: async (http) => {
      const diskCid = bodyObject(http.request).optionalText("disk_cid") ?? "";
      return startTask(http, dynamicDiskTasks.undeleteDynamicDisk, { diskName: http.param("name"), diskCid });
    },
  },
];

/** Returns the instance or host that a request names. Their ids are checked where gRPC requests are. */
function placeIn(fields: Fields): { readonly instanceId: string; readonly hostId: string } {
  const hostId = fields.optionalText("host_id");
  if (hostId === undefined) return { instanceId: fields.text("instance_id"), hostId: "" };
  return { instanceId: fields.optionalText("instance_id") ?? "", hostId };
}

/** Returns the disk that a request names. Which of the disk type and the pool it needs is checked where gRPC requests are. */
function wantedDisk(fields: Fields) {
  const diskName = fields.text("disk_name");
  const diskPoolName = fields.optionalText("disk_pool_name") ?? "";
  const pool = fields.optionalText("pool") ?? "";
  return { diskName, diskPoolName, pool, sizeBytes: sizeBytesIn(fields), metadata: fields.optionalObject("metadata") };
}

function isReadOnly(fields: Fields): boolean {
  return fields.has("read_only") && fields.flag("read_only");
}

function sizeBytesIn(fields: Fields): number {
  const sizeMib = fields.positive("disk_size");
  if (sizeMib > MAX_SIZE_MIB) throw new InvalidArgumentError(`'disk_size' is above ${MAX_SIZE_MIB} MB`);
  return sizeMib * MIB_BYTES;
}

/** Returns the name of a disk in the caller's scope for a name or a cid; names take precedence. */
async function nameOf({ context, call }: HttpCall, nameOrCid: string): Promise<string> {
  const scope = scopeOf(call);
  return context.tablet.read((tables) => {
    if (diskIn(scope, tables, nameOrCid) !== undefined) return nameOrCid;
    const ofCid = [...tables.disks.by("byCid", nameOrCid)].find((disk) => coversDisk(scope, tables, disk));
    return ofCid?.name ?? nameOrCid;
  });
}

async function* shown(
  context: Context,
  pages: AsyncGenerator<readonly DynamicDisk[]>,
): AsyncGenerator<readonly object[]> {
  for await (const disks of pages) {
    const instances = await context.tablet.read((tables) =>
      disks.map(({ instanceId }) => tables.instances.get(instanceId)),
    );
    yield disks.map((disk, index) => {
      const instance = instances[index];
      return {
        name: disk.diskName,
        disk_cid: disk.diskCid,
        deployment: disk.deployment,
        instance: instance === undefined ? null : formatInstance(instance),
        host: disk.hostId || null,
        path: disk.path || null,
        availability_zone: disk.az,
        size: wholeMib(disk.sizeBytes),
        disk_pool_name: disk.diskPoolName,
        pool: disk.pool || null,
        cpi: disk.cpi,
        metadata: disk.metadata ?? {},
      };
    });
  }
}
