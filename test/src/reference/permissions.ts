import { type Operation, POLICY, type Rule, scopesFor } from "@diskmesh/director/testing";
import { OPERATOR_ROLES } from "@diskmesh/domain";
import { pageHead, table } from "./markdown.js";
import { offeredServices, rolesShown } from "./roles.js";

const HEAD = pageHead(
  "Permissions",
  `Over gRPC a caller may do what the role in its certificate allows, over HTTPS what the scopes of its login allow. Methods for other
roles than operators' are in [the gRPC API](grpc.md).`,
);

const DIRECTOR = `## Director

\`bosh.<uuid>.admin\` and \`bosh.<uuid>.read\` are \`bosh.admin\` and \`bosh.read\` for the director of that
uuid alone. TEAM is the team of the deployment, or of a task or dynamic disk of it. Configs of CPIs, which hold secrets, and backups are for \`operator\`
alone.

**Scopes.** The rights of \`csi/DEPLOYMENT\` end at the disks and instances of that deployment, those of \`operator-disks/TEAM\` and of logins
with scopes of teams at the deployments of those teams. They may call the methods that have "yes" here, and none of the registry, dispatcher or
agents. Whatever is outside of the scope does not exist for them. \`csi\`, \`operator-disks\` and \`bosh.dynamic-disks.*\` without a scope
reach all dynamic disks.`;

const REGISTRY = `## Registry

Which operators' roles may call each method.`;

/** Stands for the id of a director, whose own scopes the page names once. */
const ID = "uuid";

/** Returns the text of docs/reference/permissions.md. */
export function permissionsPage(): string {
  return `${[HEAD, DIRECTOR, directorTable(), REGISTRY, registryTable()].join("\n\n")}\n`;
}

function registryTable(): string {
  const rows = [...offeredServices()].flatMap(([service, offers]) =>
    offers
      .filter(({ process }) => process === "disk-registry")
      .flatMap(({ roles }) =>
        [...roles].flatMap(([method, allowed]) => {
          const operators = allowed.filter((role) => OPERATOR_ROLES.includes(role));
          if (operators.length === 0) return [];
          return [[`\`${service.split(".").at(-1)}/${method}\``, rolesShown(operators)]];
        }),
      ),
  );
  return table(["method", "role"], rows);
}

function directorTable(): string {
  const rows = (Object.entries(POLICY) as [Operation, Rule][]).map(([operation, rule]) => {
    const sets = scopesFor(operation, ID, ["TEAM"]).filter((set) => !set.some((scope) => scope.includes(`.${ID}.`)));
    const scopes = sets.map((set) => set.map((scope) => `\`${scope}\``).join(" and "));
    const allowed = [...scopes, ...(rule.creator ? ["who started the task"] : [])].join(", or ");
    return [`\`${operation}\``, rolesShown(rule.roles), rule.isScoped ? "yes" : "", allowed];
  });
  return table(["to", "gRPC: role", "with a scope", "HTTPS: scopes"], rows);
}
