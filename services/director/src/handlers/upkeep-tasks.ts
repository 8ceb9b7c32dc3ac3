import type {
  DeploymentServiceDefinition,
  ProblemServiceDefinition,
  SnapshotServiceDefinition,
  StemcellServiceDefinition,
  VmServiceDefinition,
} from "@diskmesh/api/director";
import { parseCid, parseOptionalCid } from "@diskmesh/cpi";
import { InvalidArgumentError, NotFoundError, parseName } from "@diskmesh/domain";
import type { Handlers, Serve } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { orphanOf } from "../jobs/delete-orphaned-disk.js";
import { checkAnswers } from "../model/problem.js";
import { requireDeployment } from "../model/recorded-deployments.js";
import { problemKey } from "../model/schema.js";
import { formatStemcell } from "../model/stemcell.js";
import { userOf } from "../workers/tasks.js";
import { parseInstanceId } from "./parse.js";
import { taskMethod } from "./task-method.js";

type Service = Handlers<typeof DeploymentServiceDefinition> &
  Handlers<typeof ProblemServiceDefinition> &
  Handlers<typeof SnapshotServiceDefinition> &
  Handlers<typeof StemcellServiceDefinition> &
  Handlers<typeof VmServiceDefinition>;
type Name =
  | "attachOrphanedDisk"
  | "orphanPersistentDisk"
  | "deleteOrphanedDisk"
  | "takeSnapshots"
  | "deleteSnapshots"
  | "deleteVm"
  | "deleteStemcell"
  | "scanDeployment"
  | "resolveProblems";

/** Each method that starts a task on persistent disks, snapshots, a VM, a stemcell or a deployment's problems. */
export const upkeepTasks: { readonly [Method in Name]: Serve<Context, Service[Method]> } = {
  attachOrphanedDisk: taskMethod("normal", (request) => {
    const diskCid = parseCid("disk", request.diskCid);
    const instanceId = parseInstanceId(request.instanceId);
    return {
      job: { type: "attach_orphaned_disk", diskCid, instanceId },
      description: `attach orphaned disk \`${diskCid}\``,
      deployment: ({ instances }) => instances.get(instanceId)?.deployment ?? "",
    };
  }),
  orphanPersistentDisk: taskMethod("normal", (request) => {
    const diskCid = parseCid("disk", request.diskCid);
    return {
      job: { type: "orphan_persistent_disk", diskCid },
      description: `orphan disk \`${diskCid}\``,
      deployment: ({ persistentDisks }) => [...persistentDisks.by("byCid", diskCid)][0]?.deployment ?? "",
    };
  }),
  deleteOrphanedDisk: taskMethod("normal", (request) => {
    const diskCid = parseCid("disk", request.diskCid);
    return {
      job: { type: "delete_orphaned_disk", diskCid },
      description: `delete orphaned disk \`${diskCid}\``,
      deployment: "",
      // Looked at again when it runs: a disk may be attached until then.
      check: (tables) => void orphanOf(tables, diskCid),
    };
  }),
  takeSnapshots: taskMethod("normal", (request, _context, call) => {
    const deployment = parseName("deployment", request.deployment);
    const instanceId = request.instanceId === "" ? "" : parseInstanceId(request.instanceId);
    return {
      job: { type: "take_snapshots", deployment, instanceId },
      description: `take snapshots of deployment \`${deployment}\``,
      deployment,
      // Clients that lost the answer ask again.
      joins: ({ job, user }) =>
        job?.type === "take_snapshots" &&
        job.deployment === deployment &&
        job.instanceId === instanceId &&
        user === userOf(call),
    };
  }),
  deleteSnapshots: taskMethod("normal", (request) => {
    const deployment = parseName("deployment", request.deployment);
    const snapshotCid = parseOptionalCid("snapshot", request.snapshotCid);
    const what = snapshotCid === "" ? "snapshots" : `snapshot \`${snapshotCid}\``;
    return {
      job: { type: "delete_snapshots", deployment, snapshotCid },
      description: `delete ${what} of deployment \`${deployment}\``,
      deployment,
    };
  }),
  deleteVm: taskMethod("normal", (request) => {
    const vmCid = parseCid("vm", request.vmCid);
    return {
      job: { type: "delete_vm", vmCid },
      description: `delete vm \`${vmCid}\``,
      deployment: ({ instances }) => [...instances.by("byVmCid", vmCid)][0]?.deployment ?? "",
    };
  }),
  deleteStemcell: taskMethod("normal", ({ force, ...request }) => {
    const name = parseName("name", request.name);
    const version = parseName("version", request.version);
    const stemcell = formatStemcell({ name, version });
    return {
      job: { type: "delete_stemcell", name, version, force },
      description: `delete stemcell \`${stemcell}\``,
      deployment: "",
      check: ({ stemcells }) => {
        if (stemcells.count("byStemcell", stemcell) > 0) return;
        throw new NotFoundError(`there is no stemcell \`${stemcell}\``, { about: { stemcell } });
      },
    };
  }),
  scanDeployment: taskMethod("normal", (request) => {
    const deployment = parseName("deployment", request.deployment);
    return {
      job: { type: "scan_deployment", deployment },
      description: `scan deployment \`${deployment}\``,
      deployment,
      check: (tables) => requireDeployment(tables, deployment),
    };
  }),
  resolveProblems: taskMethod("normal", ({ auto, ...request }) => {
    const deployment = parseName("deployment", request.deployment);
    const answers = request.answers.map(({ problemId, resolution }) => ({ problemId, resolution }));
    const about = { about: { field: "answers" } };
    if (answers.length === 0 && !auto)
      throw new InvalidArgumentError("answers is empty: name problems, or set auto", about);
    if (new Set(answers.map(({ problemId }) => problemId)).size < answers.length)
      throw new InvalidArgumentError("answers names a problem twice", about);
    return {
      job: { type: "resolve_problems", deployment, answers, auto },
      description: `resolve problems of deployment \`${deployment}\``,
      deployment,
      check: (tables) => {
        requireDeployment(tables, deployment);
        checkAnswers(deployment, answers, (id) => (id > 0 ? tables.problems.get(problemKey(id)) : undefined));
      },
    };
  }),
};
