/**
 * A separate module, so that connection.ts can import it on demand and bundles still contain the library. The bundler
 * leaves a third-party package that is imported on demand outside of the bundle.
 */
export { connect } from "nats";
