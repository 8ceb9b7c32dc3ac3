import {
  AdminServiceDefinition,
  type CreateBackupResponse,
  type ExplainRequest,
  type ExplainResponse,
  type ListTroublesRequest,
  type ListTroublesResponse,
  SubjectKind,
} from "@diskmesh/api/common";
import { NotFoundError, NotImplementedError, OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, allowChange, type CallContext, offer, type RpcServer } from "@diskmesh/rpc";
import type { Schema, Tablet } from "@diskmesh/tablet";
import { type ProcessReport, serviceCauses, serviceSummary } from "./explain-service.js";
import { explanation } from "./explanation.js";

export interface AdminOptions<Context> {
  readonly service: string;
  /** Commits a record of the backup request before the first byte of the backup is sent. */
  readonly noteBackup: (context: Context, call: CallContext) => Promise<unknown>;
  /** Returns the health of this process; absent in a process that keeps no health report. */
  readonly report?: (() => ProcessReport) | undefined;
  /** Roles besides operators that may call the reading methods; their services merge the answers into their own. */
  readonly others?: readonly Role[];
}

/** Handlers of the methods that depend on the service's objects. */
interface AdminHandlers<Context> {
  readonly explain: (context: Context, request: ExplainRequest, call: CallContext) => Promise<ExplainResponse>;
  readonly listTroubles: (
    context: Context,
    request: ListTroublesRequest,
    call: CallContext,
  ) => Promise<ListTroublesResponse>;
}

/**
 * Adds the operator API that every service with a tablet has. `current` throws UnavailableError while this process does
 * not lead.
 */
export function addAdminService<S extends Schema, Context extends { readonly tablet: Tablet<S> }>(
  server: Pick<RpcServer, "addService">,
  current: () => Context,
  { explain, listTroubles }: AdminHandlers<Context>,
  { others = [], noteBackup, ...itself }: AdminOptions<Context>,
): void {
  offer(server, AdminServiceDefinition, () => current, {
    // A backup holds every secret of the tablet, so reading one requires the operator role.
    createBackup: allowChange(["operator"], async function* (now, _request, call) {
      const context = now();
      await noteBackup(context, call);
      yield* createBackup(context);
    }),
    // The explanation of the service itself works in a standby, too, because a process that does not lead has the most
    // to explain.
    explain: allow([...OPERATOR_ROLES, ...others], async (now, request, call) =>
      request.subject?.kind === SubjectKind.SERVICE
        ? explainItself(request.subject.name, itself)
        : explain(now(), request, call),
    ),
    listTroubles: allow([...OPERATOR_ROLES, ...others], (now, request, call) => listTroubles(now(), request, call)),
  });
}

function explainItself(
  name: string,
  { service, report }: Pick<AdminOptions<never>, "service" | "report">,
): ExplainResponse {
  if (name !== service)
    throw new NotFoundError(`this process is a ${service}, not the named service`, {
      about: { field: "subject.name" },
    });
  if (report === undefined) throw new NotImplementedError(`this ${service} does not record its state`);
  const now = report();
  return explanation(serviceSummary(service, now), { kind: "SERVICE", name } as const, (subject) =>
    serviceCauses(subject, now),
  );
}

async function* createBackup<S extends Schema>({
  tablet,
}: {
  readonly tablet: Tablet<S>;
}): AsyncGenerator<CreateBackupResponse> {
  for await (const piece of tablet.backup(Date.now())) yield { piece: Buffer.from(piece) };
}
