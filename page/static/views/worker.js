// Makes of the driver's answers what is shown, beside the page's own thread.

import { digest } from "./heat.js";

const MAKES = { heat: digest };

onmessage = ({ data: { id, data, as } }) => {
  try {
    const [told, arrays] = MAKES[as](JSON.parse(new TextDecoder().decode(data)));
    postMessage({ id, told }, arrays);
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
