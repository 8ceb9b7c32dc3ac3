import type { HttpConfig } from "../config/http-config.js";
import type { Login } from "../logins/login.js";
import { type Answer, json, text } from "./answer.js";
import type { Context } from "./context.js";

/** The version of BOSH's own director whose routes these are: clients look at it before they use some. */
const BOSH_VERSION = "283.1.6 (00000000)";

/** Returns the answer to a client's first request, with a login or without. */
export function infoAnswer({ config, tablet }: Context, login: Login | undefined, http: HttpConfig): Answer {
  const { tokens } = http;
  const uaa = tokens && { type: "uaa", options: { url: tokens.url, urls: [tokens.url] } };
  return json({
    name: config.name,
    uuid: tablet.id,
    version: BOSH_VERSION,
    user: login?.name ?? null,
    cpi: "diskmesh",
    stemcell_os: "-",
    stemcell_version: "-",
    user_authentication: http.users.length === 0 && uaa !== undefined ? uaa : { type: "basic", options: {} },
    features: {
      dynamic_disks: { status: config.dynamicDisks.enabled },
      local_dns: { status: false, extras: { domain_name: "bosh" } },
      snapshots: { status: true },
      config_server: { status: false, extras: { urls: [] } },
    },
  });
}

/** 503 with what is missing, if anything. */
export function healthAnswer(missing: string): Answer {
  return missing === "" ? text("ok\n") : text(`${missing}\n`, 503);
}
