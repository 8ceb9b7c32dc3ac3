import { ADMIN, POLICY, type Rule } from "@diskmesh/director/testing";
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
uuid alone. TEAM is the team of the deployment, or of the task on it. Configs of CPIs, which hold secrets, and backups are for \`operator\`
alone.`;

const REGISTRY = `## Registry

Which operators' roles may call each method.`;

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
  const rows = Object.entries(POLICY).map(([operation, rule]: [string, Rule]) => {
    const scopes = rule.scopes.map((set) => set.map((scope) => `\`${scope}\``).join(" and "));
    const team = rule.team === undefined ? [] : ["`bosh.teams.TEAM.admin`"];
    if (rule.team === "read") team.push("`bosh.teams.TEAM.read`");
    const creator = rule.creator ? ["who started the task"] : [];
    const allowed = [`\`${ADMIN}\``, ...scopes, ...team, ...creator].join(", or ");
    return [`\`${operation}\``, rolesShown(rule.roles), allowed];
  });
  return table(["to", "gRPC: role", "HTTPS: scopes"], rows);
}
