import {
  AdminServiceDefinition,
  type CreateBackupResponse,
  type ExplainRequest,
  type ExplainResponse,
} from "@diskmesh/api/common";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, allowChange, type CallContext, offer, type RpcServer } from "@diskmesh/rpc";
import type { Schema, Tablet } from "@diskmesh/tablet";

/** Adds what operators ask of every service with a tablet. `current` throws UnavailableError while this process does not lead. */
export function addAdminService<S extends Schema, Context extends { readonly tablet: Tablet<S> }>(
  server: Pick<RpcServer, "addService">,
  current: () => Context,
  explain: (context: Context, request: ExplainRequest, call: CallContext) => Promise<ExplainResponse>,
  /** Who may ask beside operators, to join the answer with its own. */
  others: readonly Role[] = [],
): void {
  offer(server, AdminServiceDefinition, current, {
    // It takes everything away.
    createBackup: allowChange(["operator"], createBackup),
    explain: allow([...OPERATOR_ROLES, ...others], explain),
  });
}

async function* createBackup<S extends Schema>({
  tablet,
}: {
  readonly tablet: Tablet<S>;
}): AsyncGenerator<CreateBackupResponse> {
  for await (const piece of tablet.backup(Date.now())) yield { piece: Buffer.from(piece) };
}
