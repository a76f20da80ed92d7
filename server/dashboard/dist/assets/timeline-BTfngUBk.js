import{a as e}from"./index-dmT3hU0G.js";function n(i){return e("p",{children:"TimelineView"})}export{n as TimelineView};
