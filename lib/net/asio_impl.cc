// The one place where Asio's own functions are compiled: train_net defines
// BOOST_ASIO_SEPARATE_COMPILATION for all who use it.
#include <boost/asio/impl/src.hpp>
